// Command providers measures the decoders of backend/providers over the streamed bodies of the
// recordings, beside the official SDKs with their accumulators, in the same run. Each SDK keeps one
// client for all bodies, whose transport returns the body without a network. Time and allocations
// are those of the process; from the peers' are subtracted those of as many exchanges with an empty
// answer, so that the building of their requests doesn't count. HELIX_DATA names the folder that
// holds the recordings.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"helix/backend/providers"
	"helix/backend/providers/recordings"
	"helix/backend/safehttp"
	"helixbench/figures"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench providers:", err)
		os.Exit(1)
	}
}

// side reads the body of a stream with one implementation.
type side func(body string) (answer, error)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "emulate" {
		emulate()
	}
	if len(os.Args) > 1 && os.Args[1] == "vocabularies" {
		packVocabularies()
		return
	}
	all, err := recordings.Read(filepath.Join(cmp.Or(os.Getenv("HELIX_DATA"), "../../../shared/data"), "providers"))
	check(err)
	read := goldens(all)
	if len(os.Args) > 1 && os.Args[1] == "goldens" {
		check(os.WriteFile(goldenFile, read, 0o644))
		counts, err := json.Marshal(countWithPeer(recordings.Texts(), 0).Counts)
		check(err)
		check(os.WriteFile(countsFile, append(counts, '\n'), 0o644))
		return
	}
	stored, err := os.ReadFile(goldenFile)
	check(err)
	if !bytes.Equal(read, stored) {
		check(errors.New("the SDKs read the recordings differently than " + goldenFile + " says. Run go run ./providers goldens, and the tests of backend/providers"))
	}
	for _, w := range []struct {
		name, wire, peer string
		theirs           side
	}{
		{"chat", providers.WireChat, "openai-go", chat()},
		{"responses", providers.WireResponses, "openai-go", openaiResponses()},
		{"anthropic", providers.WireAnthropic, "anthropic-sdk-go", messages()},
		{"gemini", providers.WireGemini, "genai", gemini()},
	} {
		ours := func(body string) (answer, error) { return own(w.wire, body) }
		size := 0
		var same []string
		for _, x := range all {
			if x.Wire != w.wire || !x.Streamed {
				continue
			}
			a, err := ours(x.Body)
			check(err)
			b, err := w.theirs(x.Body)
			if err != nil || a.text != b.text || compact(a.calls) != compact(b.calls) {
				continue // the peer can't read it, or reads less: no race
			}
			size += len(x.Body)
			same = append(same, x.Body)
		}
		// The SDKs come with a client; what an exchange without an answer takes is subtracted.
		empty := slices.Repeat([]string{""}, len(same))
		ourTime, ourAllocs := measure(same, ours)
		theirTime, theirAllocs := measure(same, w.theirs)
		emptyTime, emptyAllocs := measure(empty, w.theirs)
		figures.Print("parse."+w.name, float64(size)/ourTime, "MB/s", (theirTime-emptyTime)/ourTime, w.peer)
		figures.Print("parse."+w.name+".allocations", ourAllocs/float64(len(same)), "a body", ourAllocs/(theirAllocs-emptyAllocs), w.peer)
	}
	firstToken()
}

// free is a Meter without a budget.
type free struct{}

// Reserve implements providers.Meter.
func (free) Reserve(context.Context, providers.Estimate) (providers.Hold, error) { return free{}, nil }

// Settle implements providers.Hold.
func (free) Settle(providers.Usage, providers.Micros, string) {}

// emulate serves a model that says one word to every body, in a process of its own as services are, and
// writes its address. /sent has the last body.
func emulate() {
	var body []byte
	mux := http.NewServeMux()
	mux.HandleFunc("/sent", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	mux.HandleFunc("/v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		check(err)
		var q map[string]any
		check(json.Unmarshal(b, &q))
		body = b
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"}}]}\n\n")
		check(http.NewResponseController(w).Flush())
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1,\"total_tokens\":10}}\n\ndata: [DONE]\n\n")
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println("http://" + l.Addr().String())
	check(http.Serve(l, mux))
}

// firstToken measures the time from a request to its first text, and that of a raw client to the
// first line of data of the same answer to the same body, by turns.
func firstToken() {
	const rounds = 3000
	self, err := os.Executable()
	check(err)
	emulator := exec.Command(self, "emulate")
	out, err := emulator.StdoutPipe()
	check(err)
	check(emulator.Start())
	defer func() {
		_ = emulator.Process.Kill()
		_ = emulator.Wait()
	}()
	address, err := bufio.NewReader(out).ReadString('\n')
	check(err)
	address = strings.TrimSpace(address)
	client := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }, MaxRedirects: -1})
	defer client.Close()
	router, err := providers.Open(providers.Options{
		Config: func(context.Context) (map[string]providers.Entry, map[providers.Role]providers.RoleConfig, error) {
			return map[string]providers.Entry{"p": {Type: providers.WireChat, BaseURL: address}}, nil, nil
		},
		Key:  func(context.Context, string, providers.Entry) (string, string, error) { return "", "", nil },
		HTTP: client, Meter: free{},
	})
	check(err)
	q := providers.Request{Model: "p/m", Messages: []providers.Message{{Role: providers.User, Parts: []providers.Part{providers.TextPart(strings.Repeat("A question. ", 100))}}}}
	ours := func() (first time.Duration) {
		began := time.Now()
		for e, err := range router.Stream(context.Background(), q) {
			check(err)
			if e.Type == providers.EventText {
				first = time.Since(began)
			}
		}
		return first
	}
	ours()
	last, err := http.Get(address + "/sent")
	check(err)
	sent, err := io.ReadAll(last.Body)
	check(err)
	check(last.Body.Close())
	raw := func() (first time.Duration) {
		began := time.Now()
		r, err := http.Post(address+"/v1/chat/completions", "application/json", bytes.NewReader(sent))
		check(err)
		defer r.Body.Close()
		lines := bufio.NewReader(r.Body)
		for {
			line, err := lines.ReadString('\n')
			if first == 0 && strings.HasPrefix(line, "data:") {
				first = time.Since(began)
			}
			if err != nil {
				return first
			}
		}
	}
	var mine, theirs []float64
	for range rounds {
		mine = append(mine, float64(ours().Microseconds()))
		theirs = append(theirs, float64(raw().Microseconds()))
	}
	slices.Sort(mine)
	slices.Sort(theirs)
	for _, p := range []struct {
		name string
		at   int
	}{{"p50", rounds / 2}, {"p99", rounds * 99 / 100}} {
		figures.Print("ttft."+p.name, mine[p.at], "µs", mine[p.at]/theirs[p.at], "net/http")
	}
}

// measure returns the processor time in microseconds and the allocations of reading all bodies
// once: the medians of nine rounds.
func measure(bodies []string, read side) (micros, allocs float64) {
	var times, counts []float64
	const repeat = 10
	for range 9 {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := cpu()
		for range repeat {
			for _, body := range bodies {
				_, err := read(body)
				check(err)
			}
		}
		times = append(times, (cpu()-began)/repeat)
		runtime.ReadMemStats(&after)
		counts = append(counts, float64(after.Mallocs-before.Mallocs)/repeat)
	}
	slices.Sort(times)
	slices.Sort(counts)
	return times[len(times)/2], counts[len(counts)/2]
}

// cpu is this process's processor time in microseconds.
func cpu() float64 {
	var u syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3
}
