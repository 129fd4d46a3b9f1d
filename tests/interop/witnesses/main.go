// What C2SP's implementation in Go says of a log of ours, and what a `litewitness` needs to run: an agent with its key, and its logs.
//
//	agent SOCKET SEED           an ssh-agent with the Ed25519 key of this seed (hex); prints its fingerprint
//	add-log DATABASE VKEY       has a litewitness sign this log
//	proof POLICY ENTRY PROOF    fails unless the proof is of this entry (hex), under the policy (files)
//	tiles POLICY FOLDER         prints each entry (hex) of a log, once its tiles are those of its checkpoint
package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/torchwood"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/mod/sumdb/tlog"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

func main() {
	commands := map[string]func(string, string){"agent": serveAgent, "add-log": addLog, "tiles": tiles}
	arguments := os.Args[1:]
	if len(arguments) == 4 && arguments[0] == "proof" {
		proof(arguments[1], arguments[2], arguments[3])
	} else if len(arguments) == 3 && commands[arguments[0]] != nil {
		commands[arguments[0]](arguments[1], arguments[2])
	} else {
		check(fmt.Errorf("expected a command and its arguments, got %q", arguments))
	}
}

func check(err error) {
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func read(file string) []byte {
	text, err := os.ReadFile(file)
	check(err)
	return text
}

func serveAgent(socket, seed string) {
	bytes, err := hex.DecodeString(seed)
	check(err)
	key := ed25519.NewKeyFromSeed(bytes)
	keyring := agent.NewKeyring()
	check(keyring.Add(agent.AddedKey{PrivateKey: key}))
	public, err := ssh.NewPublicKey(key.Public())
	check(err)
	listener, err := net.Listen("unix", socket)
	check(err)
	fmt.Println(ssh.FingerprintSHA256(public))
	for {
		connection, err := listener.Accept()
		check(err)
		go agent.ServeAgent(keyring, connection)
	}
}

func addLog(database, vkey string) {
	origin, _, _ := strings.Cut(vkey, "+")
	connection, err := sqlite.OpenConn(database, sqlite.OpenReadWrite)
	check(err)
	defer connection.Close()
	empty, err := tlog.TreeHash(0, nil)
	check(err)
	insert := func(statement string, arguments ...any) {
		check(sqlitex.Execute(connection, statement, &sqlitex.ExecOptions{Args: arguments}))
	}
	insert("INSERT INTO log (origin, tree_size, tree_hash) VALUES (?, 0, ?)", origin, empty.String())
	insert("INSERT INTO key (origin, key) VALUES (?, ?)", origin, vkey)
}

func policyIn(file string) torchwood.Policy {
	policy, err := torchwood.ParsePolicy(read(file))
	check(err)
	return policy
}

func proof(policy, entry, file string) {
	bytes, err := hex.DecodeString(entry)
	check(err)
	check(torchwood.VerifyProof(policyIn(policy), tlog.RecordHash(bytes), read(file)))
}

type folder string

func (at folder) ReadTiles(_ context.Context, tiles []tlog.Tile) ([][]byte, error) {
	var all [][]byte
	for _, tile := range tiles {
		bytes, err := os.ReadFile(filepath.Join(string(at), torchwood.TilePath(tile)))
		if err != nil {
			return nil, err
		}
		all = append(all, bytes)
	}
	return all, nil
}

func (at folder) ReadEndpoint(_ context.Context, path string) ([]byte, error) {
	return os.ReadFile(filepath.Join(string(at), path))
}

func (folder) SaveTiles([]tlog.Tile, [][]byte) {}

func tiles(policy, at string) {
	checkpoint, _, err := torchwood.VerifyCheckpoint(read(filepath.Join(at, "checkpoint")), policyIn(policy))
	check(err)
	client, err := torchwood.NewClient(folder(at))
	check(err)
	var out bytes.Buffer
	for _, entry := range client.AllEntries(context.Background(), checkpoint.Tree, 0) {
		fmt.Fprintln(&out, hex.EncodeToString(entry))
	}
	check(client.Err())
	fmt.Print(out.String())
}
