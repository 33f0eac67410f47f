//go:build linux

package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"helix/backend/fault"
	"helix/backend/testkit"
)

// hiding is a guest that creates a text which only it can know: it derives the text from a number,
// so that the host never has it, and stores it in as many places as possible.
const hiding = `
const make = (n) => { let s = ''; for (let i = 0; i < 48; i++) { n = (Math.imul(n, 1664525) + 1013904223) >>> 0; s += String.fromCharCode(97 + (n >>> 8) % 26) } return s };
const mark = make(params.seed);
globalThis.kept = [mark, mark + 'x', { [mark]: mark }, new Map([[mark, mark]]), new Set([mark + 1]), Symbol.for(mark), new RegExp(mark), new Error(mark), () => mark, new TextEncoder().encode(mark), mark + '\u{1f600}'];
Object.prototype[mark] = mark; Array.prototype.map = null; JSON.parse = () => mark;
const big = []; for (let i = 0; i < 3000; i++) big.push(mark + i);
globalThis.kept.push(big, new Uint8Array(6e5).map((_, i) => mark.charCodeAt(i % 48)));
setTimeout(() => mark, 1e6);
`

// markOf returns the same text, with each byte changed so that this process does not contain it.
func markOf(n uint32) []byte {
	b := make([]byte, 48)
	for i := range b {
		n = n*1664525 + 1013904223
		b[i] = byte(97+(n>>8)%26) ^ 0xff
	}
	return b
}

// TestEndedRunLeavesNoDataInMemory searches the whole memory of this process for data of an ended run,
// using the operating system and not the engine.
func TestEndedRunLeavesNoDataInMemory(t *testing.T) { // not parallel: other tests would make the memory large
	if raceEnabled {
		t.Skip("measures processor time and memory, which the race detector multiplies; make test runs it without")
	}
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Idle: 2, Workers: 2, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	copying := e.Status().Snapshot == "copy"
	background, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- e.Run(background) }()
	defer func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}()
	for i, c := range []struct {
		name, end string
		discarded bool // its instance is not reused
	}{
		{"returns", "return 1", false},
		{"throws", "throw new Error('x')", false},
		{"is refused", "await helix.secret('x')", false},
		{"burns", "for (;;) {}", true},
		{"waits", "await new Promise((r) => setTimeout(r, 1e6))", true},
		{"takes memory", "for (;;) big.push(new Uint8Array(1e6).fill(mark.charCodeAt(0)))", true},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		seed := uint32(1000 + i)
		mark := markOf(seed)
		p, err := e.CompileJS(ctx, Source{Text: hiding + "await helix.state.keys();\n" + c.end})
		if err != nil {
			t.Fatal(err)
		}
		limits := Limits{CPU: 30 * time.Second, Wall: 5 * time.Minute, MemoryBytes: 32 << 20} // hiding the text is slow on a busy machine
		if c.name == "burns" {
			limits.CPU = 2 * time.Second // all of which it uses
		}
		during := 0
		h := HostFunc(func(_ context.Context, op string, _ json.RawMessage) (json.RawMessage, error) {
			if op == OpSecret {
				return nil, &fault.Error{Kind: fault.Denied, Message: "no", Details: Refusal{Reason: ReasonCapability}}
			}
			during = len(findMark(t, mark))
			if c.name == "waits" {
				time.AfterFunc(50*time.Millisecond, cancel)
			}
			return json.RawMessage(`{"keys":[]}`), nil
		})
		_, err = e.Execute(ctx, p, Call{Input: fmt.Appendf(nil, `{"seed":%d}`, seed), Host: h, Limits: limits})
		if during < 3 {
			t.Fatalf("%s: the text was found %d times while the run had it, so this test shows nothing; the run: %v", c.name, during, err)
		}
		if copying && c.discarded {
			continue // its memory belongs to the collector and is not given to any guest
		}
		// Resetting happens asynchronously.
		testkit.Eventually(t, "text of a run that "+c.name, func() []string { return findMark(t, mark) }, func(left []string) bool { return len(left) == 0 })
	}
}

// findMark returns the mappings that contain the text, once for each occurrence.
func findMark(t *testing.T, changed []byte) (places []string) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip("this system does not show the memory of processes: ", err)
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Skip("this system does not show the memory of processes: ", err)
	}
	defer mem.Close()
	pages, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Skip("this system does not show the pages of processes: ", err)
	}
	defer pages.Close()
	const chunk = 1 << 20
	buf := make([]byte, chunk+len(changed))
	present := make([]byte, chunk/4096*8)
	first := make([]byte, 8) // too short to be a text that is found
	for i := range first {
		first[i] = changed[i] ^ 0xff
	}
	for s := bufio.NewScanner(bytes.NewReader(maps)); s.Scan(); {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(s.Text(), "%x-%x %s", &from, &to, &mode); err != nil || !strings.HasPrefix(mode, "r") {
			continue
		}
		for at := from; at < to; at += chunk {
			n := min(chunk, to-at)
			bits := present[:n/4096*8]
			if _, err := pages.ReadAt(bits, at/4096*8); err != nil {
				continue
			}
			used := false
			for i := 0; i < len(bits) && !used; i += 8 {
				used = binary.LittleEndian.Uint64(bits[i:])>>62 != 0
			}
			if !used {
				continue
			}
			got, _ := mem.ReadAt(buf[:min(n+int64(len(changed)), to-at)], at)
			for b := buf[:got]; len(b) >= len(changed); {
				i := bytes.Index(b, first)
				if i < 0 || i+len(changed) > len(b) {
					break
				}
				same := true
				for j, x := range changed {
					if b[i+j] != x^0xff {
						same = false
						break
					}
				}
				if same {
					places = append(places, s.Text())
				}
				b = b[i+1:]
			}
			clear(buf) // or the next search finds the copy
		}
	}
	return places
}
