// What the tools of transparency-dev say of the same proofs and tiles: another implementation than torchwood.

package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/transparency-dev/formats/log"
	formats "github.com/transparency-dev/formats/proof"
	"github.com/transparency-dev/formats/witness"
	"github.com/transparency-dev/merkle/compact"
	merkle "github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
)

// checkpointBy reads a checkpoint that the policy's log and a quorum of its witnesses have signed.
func checkpointBy(policy string, text []byte) (*log.Checkpoint, error) {
	quorum, err := witness.ParsePolicy(read(policy))
	if err != nil {
		return nil, err
	}
	_, line, _ := strings.Cut("\n"+string(read(policy)), "\nlog ")
	vkey, _, _ := strings.Cut(line, "\n")
	key, err := note.NewVerifier(vkey)
	if err != nil {
		return nil, err
	}
	checkpoint, _, _, err := log.ParseCheckpoint(text, key.Name(), key)
	if err == nil && !quorum.Satisfied(text) {
		err = fmt.Errorf("too few witnesses have signed")
	}
	return checkpoint, err
}

func provedBy(policy string, entry, text []byte) error {
	var read formats.TLogProof
	if err := read.Unmarshal(text); err != nil {
		return err
	}
	checkpoint, err := checkpointBy(policy, read.Checkpoint)
	if err != nil {
		return err
	}
	var hashes [][]byte
	for _, hash := range read.Hashes {
		hashes = append(hashes, hash[:])
	}
	leaf := rfc6962.DefaultHasher.HashLeaf(entry)
	return merkle.VerifyInclusion(rfc6962.DefaultHasher, read.Index, checkpoint.Size, leaf, hashes, checkpoint.Hash)
}

// sameRoot fails unless these entries have the root of the checkpoint.
func sameRoot(policy string, text []byte, entries [][]byte) error {
	checkpoint, err := checkpointBy(policy, text)
	if err != nil {
		return err
	}
	tree := (&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewEmptyRange(0)
	for _, entry := range entries {
		if err := tree.Append(rfc6962.DefaultHasher.HashLeaf(entry), nil); err != nil {
			return err
		}
	}
	root, err := tree.GetRootHash(nil)
	if err == nil && (checkpoint.Size != uint64(len(entries)) || !bytes.Equal(root, checkpoint.Hash)) {
		err = fmt.Errorf("expected the root of the checkpoint, got another")
	}
	return err
}
