//go:build engine

package providerstest

import (
	"bufio"
	"embed"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helix/backend/providers"
)

//go:embed llama
var llamaFiles embed.FS

// Llama is a real engine with a model of random weights, in a separate process. It tests the
// integration, not the quality of answers.
type Llama struct{ url string }

// LlamaStats counts the answers of a Llama.
type LlamaStats struct{ Begun, Finished, Aborted, Tokens int }

// NewLlama starts the engine, which is stopped when the test ends. HELIX_LLAMA names the folder of
// node-llama-cpp; make test-engine installs it.
func NewLlama(t testing.TB) *Llama {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, llamaFiles); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("node", filepath.Join(dir, "llama", "server.mjs"), filepath.Join(os.Getenv("HELIX_LLAMA"), "dist", "index.js"), filepath.Join(dir, "random.gguf"))
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Wait()
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the engine did not start: %v", err)
	}
	return &Llama{"http://127.0.0.1:" + strings.TrimSpace(port)}
}

// Entry returns the registry entry of the engine; its model may have any name.
func (l *Llama) Entry() providers.Entry {
	return providers.Entry{Type: providers.WireChat, BaseURL: l.url}
}

// Stats returns the engine's counters.
func (l *Llama) Stats(t testing.TB) (s LlamaStats) {
	t.Helper()
	r, err := http.Get(l.url + "/stats")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}
