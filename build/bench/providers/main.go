// Command providers measures the decoders of backend/providers on the streamed bodies of the
// recordings, compared with the official SDKs and their accumulators in the same run. Each SDK keeps
// one client for all bodies, whose transport returns the body without a network. Time and allocations
// are those of the process. For the peers, those of as many exchanges with an empty answer are
// subtracted, so that building their requests doesn't count. HELIX_DATA names the folder of the
// recordings.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"helix/backend/providers"
	"helix/backend/providers/recordings"
	"helixbench/figures"
)

// side reads the body of a stream with one of the implementations.
type side func(body string) (answer, error)

// rows are measured after the decoders, or alone if the argument names one.
var rows = []struct {
	name    string
	measure func()
}{{"ttft", firstToken}, {"delta", deltas}, {"streams", manyStreams}, {"left", leftovers}, {"tokens", countTokens}, {"structured", validate}}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "emulate" {
		emulate()
	}
	if len(os.Args) > 1 && os.Args[1] == "vocabularies" {
		packVocabularies()
		return
	}
	for _, row := range rows {
		if len(os.Args) > 1 && os.Args[1] == row.name {
			row.measure()
			return
		}
	}
	start() // before anything reads the catalog
	all, err := recordings.Read(filepath.Join(cmp.Or(os.Getenv("HELIX_DATA"), "../../../shared/data"), "providers"))
	figures.Check(err)
	read := goldens(all)
	if len(os.Args) > 1 && os.Args[1] == "goldens" {
		figures.Check(os.WriteFile(goldenFile, read, 0o644))
		counts, err := json.Marshal(countWithPeer(recordings.Texts(), 0).Counts)
		figures.Check(err)
		figures.Check(os.WriteFile(countsFile, append(counts, '\n'), 0o644))
		return
	}
	stored, err := os.ReadFile(goldenFile)
	figures.Check(err)
	if !bytes.Equal(read, stored) {
		figures.Check(errors.New("the SDKs read the recordings differently than " + goldenFile + " says. Run go run ./providers goldens, and the tests of backend/providers"))
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
			figures.Check(err)
			b, err := w.theirs(x.Body)
			if err != nil || a.text != b.text || compact(a.calls) != compact(b.calls) {
				continue // the peer can't read it, or reads less: not comparable
			}
			size += len(x.Body)
			same = append(same, x.Body)
		}
		// The SDKs include a client; the cost of an exchange without an answer is subtracted.
		empty := slices.Repeat([]string{""}, len(same))
		ourTime, ourAllocs := measure(same, ours)
		theirTime, theirAllocs := measure(same, w.theirs)
		emptyTime, emptyAllocs := measure(empty, w.theirs)
		figures.Print("parse."+w.name, float64(size)/ourTime, "MB/s", (theirTime-emptyTime)/ourTime, w.peer)
		figures.Print("parse."+w.name+".allocations", ourAllocs/float64(len(same)), "a body", ourAllocs/(theirAllocs-emptyAllocs), w.peer)
	}
	for _, row := range rows {
		row.measure()
	}
}

// measure returns the processor time in microseconds and the number of allocations for reading all
// bodies once, as medians of nine rounds.
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
				figures.Check(err)
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

// cpu returns this process's processor time in microseconds.
func cpu() float64 {
	var u syscall.Rusage
	figures.Check(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3
}
