// What two implementations in Go, torchwood's and transparency-dev's, say of a log of ours, and what a `litewitness` needs to run: an agent with its key, and its logs.
//
//	agent SOCKET SEED           an ssh-agent with the Ed25519 key of this seed (hex); prints its fingerprint
//	add-log DATABASE VKEY       has a litewitness sign this log
//	proof POLICY ENTRY PROOF    fails unless the proof is of this entry (hex), under the policy (files); prints whether they differ
//	tiles POLICY FOLDER         prints each entry (hex) of a log, once its tiles are those of its checkpoint
//	submit URL VKEY FOLDER OLD  sends a witness the checkpoint of a log, from an old size on, and again from the size in a 409. Prints each
//	                            status; fails unless 200 comes with a cosignature of that key
package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

func main() {
	commands := map[string]func(string, string){"agent": serveAgent, "add-log": addLog, "tiles": tiles}
	arguments := os.Args[1:]
	if len(arguments) == 4 && arguments[0] == "proof" {
		proof(arguments[1], arguments[2], arguments[3])
	} else if len(arguments) == 5 && arguments[0] == "submit" {
		submit(arguments[1], arguments[2], arguments[3], arguments[4])
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
	ours := torchwood.VerifyProof(policyIn(policy), tlog.RecordHash(bytes), read(file))
	theirs := provedBy(policy, bytes, read(file))
	if (ours == nil) != (theirs == nil) {
		fmt.Printf("they differ: torchwood %v, transparency-dev %v\n", ours, theirs)
	}
	check(ours)
	check(theirs)
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
	var entries [][]byte
	for _, entry := range client.AllEntries(context.Background(), checkpoint.Tree, 0) {
		fmt.Fprintln(&out, hex.EncodeToString(entry))
		entries = append(entries, bytes.Clone(entry))
	}
	check(client.Err())
	check(sameRoot(policy, read(filepath.Join(at, "checkpoint")), entries))
	fmt.Print(out.String())
}

// As the text of c2sp.org/tlog-witness has it, with the proof and the signature of C2SP's implementation.
func submit(url, vkey, at, oldSize string) {
	verifier, err := torchwood.NewCosignatureVerifier(vkey)
	check(err)
	signed := string(read(filepath.Join(at, "checkpoint")))
	text, _, _ := strings.Cut(signed, "\n\n")
	text += "\n"
	checkpoint, err := torchwood.ParseCheckpoint(text)
	check(err)
	old, err := strconv.ParseInt(oldSize, 10, 64)
	check(err)
	for range 2 {
		status, kind, reply := post(url, fmt.Sprintf("old %d\n%s\n%s", old, proofLines(checkpoint, at, old), signed))
		fmt.Println(status)
		switch status {
		case http.StatusOK:
			cosigned, err := note.Open([]byte(text+"\n"+reply), note.VerifierList(verifier))
			check(err)
			seconds, err := torchwood.CosignatureTimestamp(cosigned.Sigs[0])
			check(err)
			if age := time.Since(time.Unix(seconds, 0)); age < -time.Minute || age > time.Hour {
				check(fmt.Errorf("expected a cosignature of now, got one of %d", seconds))
			}
			return
		case http.StatusConflict:
			if kind != "text/x.tlog.size" {
				check(fmt.Errorf("expected the type of a size, got %q", kind))
			}
			old, err = strconv.ParseInt(strings.TrimSuffix(reply, "\n"), 10, 64)
			check(err)
		default:
			return
		}
	}
}

func proofLines(checkpoint torchwood.Checkpoint, at string, old int64) string {
	if old == 0 || old >= checkpoint.N {
		return ""
	}
	reader := torchwood.TileHashReaderWithContext(context.Background(), checkpoint.Tree, folder(at))
	proof, err := tlog.ProveTree(checkpoint.N, old, reader)
	check(err)
	var lines strings.Builder
	for _, hash := range proof {
		fmt.Fprintln(&lines, hash)
	}
	return lines.String()
}

func post(url, body string) (int, string, string) {
	request, err := http.NewRequest("POST", url+"/add-checkpoint", strings.NewReader(body))
	check(err)
	reply, err := http.DefaultClient.Do(request)
	check(err)
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	check(err)
	return reply.StatusCode, reply.Header.Get("Content-Type"), string(text)
}
