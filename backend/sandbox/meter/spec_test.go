package meter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// The official tests of the WebAssembly specification are part of wazero's sources. Each script
// runs twice side by side, on the unchanged and on the instrumented modules, and every step must
// have the same outcome.

// specCompared is the number of compared steps, so that the test cannot pass without comparing
// anything.
const specCompared = 71_715

// specSkipped are the steps of the scripts that are not compared, with the reason. Modules in the
// text format are skipped too, because there is no parser for it here.
var specSkipped = map[string]string{
	"v1/unreached-invalid.json:539": "multi-value made it valid",
	"v1/type.json:53":               "multi-value made it valid",
	"v1/type.json:57":               "multi-value made it valid",
	"v1/func.json:493":              "multi-value made it valid",
	"v1/func.json:497":              "multi-value made it valid",
	"v1/linking.json:236":           "bulk memory made segments before a bad one take effect",
	"v1/linking.json:248":           "bulk memory made segments before a bad one take effect",
	"v1/imports.json:318":           "reference types made a second table valid",
}

type specScript struct {
	Commands []specCommand `json:"commands"`
}

type specCommand struct {
	Type       string      `json:"type"`
	Line       int         `json:"line"`
	Name       string      `json:"name"`
	As         string      `json:"as"`
	Filename   string      `json:"filename"`
	ModuleType string      `json:"module_type"`
	Text       string      `json:"text"`
	Action     specAction  `json:"action"`
	Expected   []specValue `json:"expected"`
}

type specAction struct {
	Type   string      `json:"type"`
	Field  string      `json:"field"`
	Module string      `json:"module"`
	Args   []specValue `json:"args"`
}

type specValue struct {
	Type  string          `json:"type"`
	Lane  string          `json:"lane_type"`
	Value json.RawMessage `json:"value"`
}

func specDir(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		t.Fatalf("where wazero is: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "internal", "integration_test", "spectest")
}

func TestSpecification(t *testing.T) {
	t.Parallel()
	dir := specDir(t)
	base, err := os.ReadFile(filepath.Join(dir, "testdata", "spectest.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	var compared atomic.Int64
	t.Run("scripts", func(t *testing.T) {
		for _, version := range []string{"v1", "v2"} {
			files, err := filepath.Glob(filepath.Join(dir, version, "testdata", "*.json"))
			if err != nil || len(files) < 70 {
				t.Fatalf("%d scripts of %s: %v", len(files), version, err)
			}
			for _, file := range files {
				t.Run(version+"/"+strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
					t.Parallel()
					compared.Add(int64(runSpec(t, file, base)))
				})
			}
		}
	})
	t.Logf("%d steps compared", compared.Load())
	if !t.Failed() && compared.Load() != specCompared {
		t.Errorf("%d steps were compared, expected %d", compared.Load(), specCompared)
	}
}

// specSide is one of the two runtimes.
type specSide struct {
	rt      wazero.Runtime
	metered bool
	named   map[string]api.Module
	last    api.Module
	gauges  []*Gauge
}

func runSpec(t *testing.T, file string, base []byte) (compared int) {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var script specScript
	if err := json.Unmarshal(raw, &script); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	sides := [2]*specSide{{}, {metered: true}}
	for _, s := range sides {
		s.rt = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(Features))
		s.named = map[string]api.Module{}
		defer func() { _ = s.rt.Close(ctx) }()
		if _, err := s.rt.Instantiate(ctx, base); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < len(script.Commands); i++ {
		c := script.Commands[i]
		at := fmt.Sprintf("%s/%s:%d", filepath.Base(filepath.Dir(filepath.Dir(file))), filepath.Base(file), c.Line)
		if why := specSkipped[at]; why != "" {
			continue
		}
		switch c.Type {
		case "module", "assert_uninstantiable", "assert_unlinkable":
			if c.ModuleType == "text" {
				continue
			}
			wasm, err := os.ReadFile(filepath.Join(filepath.Dir(file), c.Filename))
			if err != nil {
				t.Fatal(err)
			}
			name := ""
			if next := i + 1; next < len(script.Commands) && script.Commands[next].Type == "register" {
				name = script.Commands[next].As
				i++
			}
			var errs [2]error
			for k, s := range sides {
				m, err := s.load(wasm, name)
				if errs[k] = err; err == nil && c.Type == "module" {
					s.last, s.named[c.Name] = m, m
				}
			}
			if (errs[0] == nil) != (errs[1] == nil) {
				t.Errorf("%s: original %v, metered %v", at, errs[0], errs[1])
			}
			if c.Type == "module" && errs[1] != nil {
				t.Errorf("%s: %v", at, errs[1])
			}
			compared++
		case "register":
			t.Fatalf("%s: a register that does not follow its module", at)
		case "assert_malformed", "assert_invalid":
			if c.ModuleType == "text" {
				continue
			}
			wasm, err := os.ReadFile(filepath.Join(filepath.Dir(file), c.Filename))
			if err != nil {
				t.Fatal(err)
			}
			if err := Validate(wasm, anyImport(ModuleLimits{MemoryPages: 1 << 16})); err == nil {
				t.Errorf("%s: a module that is not valid was accepted (%s)", at, c.Text)
			}
			compared++
		case "assert_return", "action", "assert_trap", "assert_exhaustion":
			var res [2][]uint64
			var errs [2]error
			for k, s := range sides {
				res[k], errs[k] = s.do(c.Action)
			}
			if why := sameOutcome(res, errs, c.Expected); why != "" {
				t.Errorf("%s: %s(%s): %s", at, c.Action.Field, c.Action.Module, why)
			}
			if failed := errs[0] != nil; failed != (c.Type == "assert_trap" || c.Type == "assert_exhaustion") {
				t.Errorf("%s: the original ended with %v", at, errs[0])
			}
			compared++
		default:
			t.Fatalf("%s: unknown command %s", at, c.Type)
		}
	}
	return compared
}

func (s *specSide) load(wasm []byte, name string) (api.Module, error) {
	ctx := context.Background()
	if s.metered {
		out, _, err := Instrument(wasm, Options{CountStack: true, BulkSlice: 64})
		if err != nil {
			return nil, err
		}
		wasm = out
	}
	m, err := s.rt.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithName(name))
	if err != nil || !s.metered {
		return m, err
	}
	g, err := NewGauge(m)
	if err != nil {
		return nil, err
	}
	g.Arm(math.MaxInt64)
	s.gauges = append(s.gauges, g)
	if f := m.ExportedFunction(StartExport); f != nil {
		_, err = f.Call(ctx)
	}
	return m, err
}

func (s *specSide) do(a specAction) ([]uint64, error) {
	m := s.last
	if a.Module != "" {
		m = s.named[a.Module]
	}
	if m == nil {
		return nil, errors.New("no such module")
	}
	if a.Type == "get" {
		g := m.ExportedGlobal(a.Field)
		if g == nil {
			return nil, errors.New("no such global")
		}
		return []uint64{g.Get()}, nil
	}
	f := m.ExportedFunction(a.Field)
	if f == nil {
		return nil, errors.New("no such function")
	}
	var args []uint64
	for _, v := range a.Args {
		args = append(args, v.words()...)
	}
	for _, g := range s.gauges {
		g.Arm(math.MaxInt64)
	}
	res, err := f.Call(context.Background(), args...)
	for _, g := range s.gauges {
		if err != nil && g.TooDeep() {
			return res, errors.New("stack overflow")
		}
	}
	return res, err
}

// words returns the value for wazero's API.
func (v specValue) words() []uint64 {
	if v.Type == "v128" {
		var lanes []string
		if json.Unmarshal(v.Value, &lanes) != nil {
			return []uint64{0, 0}
		}
		var w [2]uint64
		bits := 128 / len(lanes)
		for i, l := range lanes {
			x := number(l)
			if bits < 64 {
				x &= 1<<bits - 1
			}
			w[i*bits/64] |= x << (i * bits % 64)
		}
		return w[:]
	}
	var s string
	if json.Unmarshal(v.Value, &s) != nil || s == "null" {
		return []uint64{0}
	}
	x := number(s)
	switch v.Type {
	case "externref":
		x++ // zero is wazero's null
	case "i32", "f32":
		x &= math.MaxUint32
	}
	return []uint64{x}
}

func number(s string) uint64 {
	if strings.HasPrefix(s, "-") {
		v, _ := strconv.ParseInt(s, 10, 64)
		return uint64(v)
	}
	v, _ := strconv.ParseUint(s, 10, 64)
	return v
}

// sameOutcome compares the outcomes of the two sides: equal bits, or both a NaN, or the same kind
// of trap.
func sameOutcome(res [2][]uint64, errs [2]error, want []specValue) string {
	if errs[0] != nil || errs[1] != nil {
		if trapText(errs[0]) != trapText(errs[1]) {
			return fmt.Sprintf("original %v, metered %v", errs[0], errs[1])
		}
		return ""
	}
	if len(res[0]) != len(res[1]) {
		return fmt.Sprintf("original %v, metered %v", res[0], res[1])
	}
	lane := make([]string, 0, len(res[0]))
	for _, v := range want {
		lane = append(lane, v.Type)
		if v.Type == "v128" {
			lane[len(lane)-1] = v.Lane
			lane = append(lane, v.Lane)
		}
	}
	for i, a := range res[0] {
		b := res[1][i]
		kind := ""
		if i < len(lane) {
			kind = lane[i]
		}
		if a != b && (kind == "funcref" && a != 0 && b != 0 || bothNaN(kind, a, b)) {
			continue // references are addresses
		}
		if a != b {
			return fmt.Sprintf("original %#x, metered %#x", res[0], res[1])
		}
	}
	return ""
}

func bothNaN(kind string, a, b uint64) bool {
	switch kind {
	case "f64":
		return math.IsNaN(math.Float64frombits(a)) && math.IsNaN(math.Float64frombits(b))
	case "f32":
		for shift := 0; shift < 64; shift += 32 {
			x, y := uint32(a>>shift), uint32(b>>shift)
			if x != y && !(math.Float32frombits(x) != math.Float32frombits(x) && math.Float32frombits(y) != math.Float32frombits(y)) {
				return false
			}
		}
		return true
	}
	return false
}

// trapText returns the reason of a trap without its stack.
func trapText(err error) string {
	if err == nil {
		return "no trap"
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}
