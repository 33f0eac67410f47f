package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hostileCase is one program of testdata/hostile. The comments at its top say what it may
// do: the first line names the classes in which it may end ("ok": it may end well), the
// others are optional:
//
//	class: cpu memory           the only classes allowed
//	cpu: 300ms                  limit of processor time, where it may end by that (default 150ms)
//	wall: 10s                   limit of wall time, where it may end by that (default 10s)
//	within: 3s                  how long the whole call may take in a timed run (default 3s)
//	memory: 64                  limit of linear memory in MiB (default 64)
//	output: 42                  the result, when it ends well
//	input: {}                   the parameters
//	input-nested: 1000          parameters of so many nested arrays
//	host: echo                  what answers its operations, see hostileHosts (default: all refused)
//	expand: X unit 1000         @X@ in the text stands for 1000 units; %41 in a unit is a byte, ~ the repetition's number
//	flags: --enable-all         what wat2wasm needs for it
//	long: yes                   only in the long form
//	waits: H2                   does not run yet, and why
type hostileCase struct {
	name, kind string // kind: js, ts, wasm
	classes    []string
	limits     Limits
	within     time.Duration
	output     string
	hasOutput  bool
	input      []byte
	host       string
	long       bool
	waits      string
	flags      string
	code       []byte        // source text or module
	make       func() []byte // generates code, if it is large
}

// hostileFiles reads the corpus: the files, then the modules too large to be files.
func hostileFiles(t testing.TB) []hostileCase {
	t.Helper()
	var cases []hostileCase
	for _, pattern := range []string{"*.js", "*.ts", "*.wat"} {
		files, err := filepath.Glob(filepath.Join("testdata", "hostile", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, f := range files {
			cases = append(cases, readHostile(t, f))
		}
	}
	cases = append(cases, hostileGiants()...)
	slices.SortStableFunc(cases, func(a, b hostileCase) int { return strings.Compare(a.name, b.name) })
	return cases
}

func readHostile(t testing.TB, file string) hostileCase {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ext := filepath.Ext(file)
	h := hostileCase{name: strings.TrimSuffix(filepath.Base(file), ext), kind: ext[1:]}
	mark := "// "
	if ext == ".wat" {
		h.kind, mark = "wasm", ";; "
	}
	expand := map[string]string{}
	rest := string(text)
	for {
		line, after, ok := strings.Cut(rest, "\n")
		key, value, known := strings.Cut(strings.TrimPrefix(line, mark), ": ")
		if !ok || !strings.HasPrefix(line, mark) || !known {
			break
		}
		if err := h.set(key, value, expand); err != nil {
			if len(h.classes) > 0 { // the program's own comment
				break
			}
			t.Fatalf("%s: %q: %v", file, line, err)
		}
		rest = after
	}
	if h.kind == "wasm" {
		if h.code, err = os.ReadFile(strings.TrimSuffix(file, ext) + ".wasm"); err != nil {
			t.Fatal(err)
		}
	} else {
		for name, with := range expand {
			rest = strings.ReplaceAll(rest, "@"+name+"@", with)
		}
		h.code = []byte(rest)
	}
	if len(h.classes) == 0 {
		t.Fatalf("%s names no class", file)
	}
	h.defaults()
	return h
}

// text returns the program.
func (h *hostileCase) text() []byte {
	if h.code == nil {
		return h.make()
	}
	return h.code
}

func (h *hostileCase) set(key, value string, expand map[string]string) (err error) {
	switch key {
	case "class":
		h.classes = strings.Fields(value)
	case "cpu":
		h.limits.CPU, err = time.ParseDuration(value)
	case "wall":
		h.limits.Wall, err = time.ParseDuration(value)
	case "within":
		h.within, err = time.ParseDuration(value)
	case "memory":
		h.limits.MemoryBytes, err = strconv.ParseInt(value, 10, 64)
		h.limits.MemoryBytes <<= 20
	case "output":
		h.output, h.hasOutput = value, true
	case "input":
		h.input = []byte(value)
	case "input-nested":
		var n int
		n, err = strconv.Atoi(value)
		h.input = []byte(strings.Repeat("[", n) + strings.Repeat("]", n))
	case "host":
		h.host = value
	case "flags":
		h.flags = value
	case "long":
		h.long = value == "yes"
	case "waits":
		h.waits = value
	case "expand":
		first, last := strings.Index(value, " "), strings.LastIndex(value, " ")
		if first < 0 || first == last {
			return fmt.Errorf("want a name, a unit and a number")
		}
		var n int
		if n, err = strconv.Atoi(value[last+1:]); err == nil {
			expand[value[:first]] = repeatUnit(value[first+1:last], n)
		}
	default:
		return fmt.Errorf("unknown key")
	}
	return err
}

// defaults gives a program that must end in another way than by a timeout the maximum time, so that
// a slow or busy machine does not affect how it ends.
func (h *hostileCase) defaults() {
	most, _ := Profile("permissive")
	if !slices.Contains(h.classes, string(ClassCPU)) {
		h.limits.CPU = most.CPU
	}
	if !slices.Contains(h.classes, string(ClassTimeout)) {
		h.limits.Wall = most.Wall
	}
	fill(&h.limits.CPU, 150*time.Millisecond)
	fill(&h.limits.Wall, 10*time.Second)
	fill(&h.limits.MemoryBytes, 64<<20)
	fill(&h.within, 3*time.Second)
}

// crosschecked gives a program that must end by itself the additional time that Crosscheck costs:
// wazero's own checks make it four to eight times slower. Programs that end at their limit keep it.
func (h *hostileCase) crosschecked() {
	if slices.Contains(h.classes, string(ClassCPU)) || slices.Contains(h.classes, string(ClassTimeout)) {
		return
	}
	most, _ := Profile("standard")
	h.limits.CPU = min(8*h.limits.CPU, most.CPU)
	h.limits.Wall = min(8*h.limits.Wall, most.Wall)
	h.within *= 8
}

func repeatUnit(unit string, n int) string {
	var plain []byte
	for i := 0; i < len(unit); i++ {
		if unit[i] == '%' && i+2 < len(unit) {
			if b, err := strconv.ParseUint(unit[i+1:i+3], 16, 8); err == nil {
				plain = append(plain, byte(b))
				i += 2
				continue
			}
		}
		plain = append(plain, unit[i])
	}
	if !bytes.ContainsRune(plain, '~') {
		return strings.Repeat(string(plain), n)
	}
	var s strings.Builder
	for i := range n {
		s.WriteString(strings.ReplaceAll(string(plain), "~", strconv.Itoa(i)))
	}
	return s.String()
}
