package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// pouch holds the results of PouchDB in this run.
type pouch struct {
	push, pull float64 // documents per second
	p50, p99   float64 // milliseconds per change
	server     *exec.Cmd
}

// pouch runs the peer on first use and returns its results.
func (b *bench) pouch() *pouch {
	if b.peer != nil {
		return b.peer
	}
	b.peer = &pouch{}
	server := exec.Command("node", "sync/peer.mjs", "server", filepath.Join(b.dir, "pouch-server"))
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	check(err)
	check(server.Start())
	b.peer.server = server
	url, err := bufio.NewReader(out).ReadString('\n')
	check(err)
	client := exec.Command("node", "sync/peer.mjs", "client", filepath.Join(b.dir, "pouch-client"), strings.TrimSpace(url), fmt.Sprint(pouchDocs), "300")
	client.Stderr = os.Stderr
	text, err := client.Output()
	check(err)
	var r struct{ Push, Pull, P50, P99 float64 }
	check(json.Unmarshal(text, &r))
	b.peer.push, b.peer.pull, b.peer.p50, b.peer.p99 = r.Push, r.Pull, r.P50, r.P99
	return b.peer
}

func (b *bench) stopPeer() {
	if b.peer != nil && b.peer.server != nil {
		_ = b.peer.server.Process.Kill()
		_ = b.peer.server.Wait() // returns an error because it was killed
	}
}
