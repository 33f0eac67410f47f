package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

type level string

func (level) Enum() []level { return []level{"low", "high"} }

type inner struct {
	SynthesisType string `json:"synthesisType,omitempty"`
	Deep          []leaf `json:"deep,omitempty"`
}

type leaf struct {
	At time.Time `json:"at"`
}

type everything struct {
	PageParams
	ID      uuid.UUID         `json:"id"`
	Level   level             `json:"level,omitempty"`
	Name    *string           `json:"name,omitempty"`
	Big     BigInt            `json:"big,omitempty"`
	Data    []byte            `json:"data,omitempty"`
	Ratio   float64           `json:"ratio,omitempty"`
	Small   int8              `json:"small,omitempty"`
	Flag    bool              `json:"flag,omitempty"`
	Inner   inner             `json:"inner,omitzero"`
	Labels  map[string]int    `json:"labels,omitempty"`
	Raw     json.RawMessage   `json:"raw,omitempty"`
	Any     any               `json:"any,omitempty"`
	Tags    []string          `json:"tags,omitempty"`
	Nested  map[string][]leaf `json:"nested,omitempty"`
	Ignored int               `json:"-"`
}

func TestStrictDecoding(t *testing.T) {
	t.Parallel()
	p := newTypes().plan(reflect.TypeFor[everything]())
	const id = `"id":"0190a000-0000-7000-8000-000000000001"`
	cases := []struct{ in, want string }{
		{`{` + id + `}`, ""},
		{`{` + id + `,"_meta":{"deadlineMs":5}}`, ""},
		{`{` + id + `,"limit":3,"level":"high","name":null,"big":"9007199254740993","data":"aGk=","ratio":1e3,"small":-128,"flag":true,"inner":{"deep":[{"at":"2026-01-02T03:04:05.678901+02:00"}]},"labels":{"a":1},"raw":[1,{"x":null}],"any":{"y":1},"tags":["a"],"nested":{"n":[]}}`, ""},
		{`{}`, `missing field "id"`},
		{`[1]`, `params must be an object with named fields`},
		{`{` + id + `,"synthesis_type":1}`, `unknown field "synthesis_type"`},
		{`{` + id + `,"inner":{"synthesis_type":"x"}}`, `unknown field "inner.synthesis_type"; did you mean "synthesisType"?`},
		{`{` + id + `,"Inner":{}}`, `unknown field "Inner"; did you mean "inner"?`},
		{`{` + id + `,"lables":{}}`, `unknown field "lables"; did you mean "labels"?`},
		{`{` + id + `,"inner":{"_meta":{}}}`, `unknown field "inner._meta"`},
		{`{` + id + `,"level":"middle"}`, `field "level": expected one of low, high`},
		{`{` + id + `,"level":5}`, `field "level": expected a string, got a number`},
		{`{"id":"nope"}`, `field "id": expected a UUID`},
		{`{"id":"{0190a000-0000-7000-8000-000000000001}"}`, `field "id": expected a UUID`},
		{`{"id":null}`, `field "id": expected a UUID, got null`},
		{`{` + id + `,"big":5}`, `field "big": expected a string, got a number`},
		{`{` + id + `,"big":"5x"}`, `field "big": not a valid bigint`},
		{`{` + id + `,"data":"***"}`, `field "data": not a valid `},
		{`{` + id + `,"ratio":"1"}`, `field "ratio": expected a number, got a string`},
		{`{` + id + `,"small":128}`, `out of range`},
		{`{` + id + `,"small":1.5}`, `field "small": expected a whole number`},
		{`{` + id + `,"flag":1}`, `field "flag": expected a boolean, got a number`},
		{`{` + id + `,"flag":null}`, ``},
		{`{` + id + `,"inner":[]}`, `field "inner": expected an object, got an array`},
		{`{` + id + `,"inner":{"deep":[{}]}}`, `missing field "inner.deep[0].at"`},
		{`{` + id + `,"inner":{"deep":[{"at":"yesterday"}]}}`, `field "inner.deep[0].at": expected an RFC 3339 time`},
		{`{` + id + `,"nested":{"a b":[{"at":1}]}}`, `field "nested.a b[0].at": expected an RFC 3339 time, got a number`},
		{`{` + id + `,"tags":"a"}`, `field "tags": expected an array, got a string`},
		{`{` + id + `,"tags":[1]}`, `field "tags[0]": expected a string, got a number`},
		{`{` + id + `,"labels":{"a":"b"}}`, `field "labels.a": expected a whole number, got a string`},
		{`{` + id + `,"ignored":1}`, `unknown field "ignored"`},
		{`{` + id + `,"raw":{"n":[1e100000000]}}`, `field "raw/n/0": the number 1e100000000 is beyond`},
		{`{` + id + `,"any":1e-401}`, `field "any": the number 1e-401 is beyond`},
	}
	for _, c := range cases {
		var v everything
		err := decodeParams([]byte(c.in), p, false, &v)
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", c.in, err)
		}
		if c.want != "" {
			var w *wireError
			if !errors.As(err, &w) || w.Code != -32602 || !strings.Contains(w.Message, c.want) {
				t.Errorf("%s: %v, want %q", c.in, err, c.want)
			}
		}
	}
	var v everything
	if err := decodeParams([]byte(`{`+id+`,"limit":7,"big":"9007199254740993","inner":{"deep":[{"at":"2026-01-02T03:04:05.678901+02:00"}]}}`), p, false, &v); err != nil {
		t.Fatal(err)
	}
	if v.Limit != 7 || v.Big != 9007199254740993 || v.Inner.Deep[0].At.Nanosecond() != 678901000 {
		t.Errorf("%+v", v)
	}
}

type selfList struct {
	Kids []*selfList         `json:"kids,omitempty"`
	By   map[string]selfList `json:"by,omitempty"`
	Next *selfList           `json:"next,omitempty"`
}

func TestTypesThatContainThemselves(t *testing.T) {
	t.Parallel()
	p := newTypes().plan(reflect.TypeFor[selfList]())
	var v selfList
	if err := decodeParams([]byte(`{"kids":[{"kids":[]}],"by":{"a":{"next":{"next":{}}}}}`), p, false, &v); err != nil {
		t.Fatal(err)
	}
	if err := decodeParams([]byte(`{"by":{"a":{"next":{"nxt":{}}}}}`), p, false, &v); err == nil || !strings.Contains(err.Error(), `"by.a.next.nxt"; did you mean "next"`) {
		t.Fatal(err)
	}
	a := NewAPI()
	Handle(a, "self.get", Read, func(context.Context, selfList) (selfList, error) { return selfList{}, nil })
	if doc := a.Document(nil); !json.Valid(doc) {
		t.Fatal("no document")
	}
}

func TestUnsupportedWireTypes(t *testing.T) {
	t.Parallel()
	for name, add := range map[string]func(*API){
		"func": func(a *API) {
			Handle(a, "x.y", Read, func(context.Context, struct {
				F func() `json:"f"`
			}) (int, error) {
				return 0, nil
			})
		},
		"channel": func(a *API) { Forward[chan int](a, "x.y") },
		"map key": func(a *API) {
			Handle(a, "x.y", Read, func(context.Context, struct{}) (map[int]string, error) { return nil, nil })
		},
		"params": func(a *API) { Handle(a, "x.y", Read, func(context.Context, int) (int, error) { return 0, nil }) },
		"no tag": func(a *API) { Forward[struct{ A int }](a, "x.y") },
		"string": func(a *API) {
			Forward[struct {
				A int `json:"a,string"`
			}](a, "x.y")
		},
		"name":      func(a *API) { Handle(a, "X Y", Read, func(context.Context, struct{}) (int, error) { return 0, nil }) },
		"event":     func(a *API) { Forward[int](a, "nodot") },
		"no target": func(a *API) { Alias(a, "a", "b") },
		"twice": func(a *API) {
			for range 2 {
				Handle(a, "x.y", Read, func(context.Context, struct{}) (int, error) { return 0, nil })
			}
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was taken", name)
				}
			}()
			add(NewAPI())
		}()
	}
}

// TestDocumentIsOpenRPC validates the document against the standard's own schema.
func TestDocumentIsOpenRPC(t *testing.T) {
	t.Parallel()
	f := setup(t)
	got := f.memory(t, f.owner()).ask(`{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}`)
	var m struct{ Result json.RawMessage }
	if err := json.Unmarshal([]byte(got), &m); err != nil {
		t.Fatal(err)
	}
	_, _, over := f.get(t, "GET", f.URL()+"/openrpc.json", bearer(rootToken), nil)
	if over != string(m.Result) {
		t.Error("/openrpc.json and rpc.discover differ")
	}
	raw, err := os.ReadFile(filepath.Join("testdata", "openrpc-meta.json"))
	if err != nil {
		t.Fatal(err)
	}
	meta, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource("meta:openrpc", meta); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("meta:openrpc")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(m.Result))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Errorf("%v", err)
	}
	methods := map[string]bool{}
	for _, x := range doc.(map[string]any)["methods"].([]any) {
		x := x.(map[string]any)
		methods[x["name"].(string)] = true
		if x["name"] == "start_memory_synthesis" && (x["x-alias-of"] != "services.start" || x["x-scope"] != "write") {
			t.Errorf("alias: %v", x)
		}
	}
	for _, m := range f.api.Methods() {
		if !methods[m.Name] {
			t.Errorf("%s is not in the document", m.Name)
		}
	}
}

// noLoader loads nothing from the network.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) { return nil, errors.New("not loaded: " + url) }

// TestIdsAreUnpredictable looks for uses of the random source that must not create ids or secrets.
// It may only be used for the jitter of delays, and for reproducible sequences in measurements and
// statistical tests.
func TestIdsAreUnpredictable(t *testing.T) {
	t.Parallel()
	bad := regexp.MustCompile(`"math/rand(/v2)?"`)
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test"+string(filepath.Separator)) {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bad.Match(src) {
			return nil
		}
		for _, use := range regexp.MustCompile(`rand\.\w+`).FindAllString(string(src), -1) {
			measures := slices.Contains([]string{"../memory/locomo/bench.go", "../cluster/measure.go", "../cluster/kmeans.go", "../synthesis/stats.go", "../synthesis/clustermap.go", "../providers/recordings/texts.go"}, filepath.ToSlash(path))
			if use != "rand.Float64" && !(measures && (use == "rand.New" || use == "rand.NewPCG" || use == "rand.Rand")) {
				t.Errorf("%s uses %s of math/rand", path, use)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if v := newID().Version(); v != 7 {
		t.Errorf("ids are version %d", v)
	}
}

// TestClientFramesFitTheSchemas validates what the Go client sends, and the notifications that it
// receives, against the published document.
func TestClientFramesFitTheSchemas(t *testing.T) {
	t.Parallel()
	f := setup(t)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(f.api.Document(nil)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	c.UseLoader(noLoader{})
	if err := c.AddResource("helix:openrpc", doc); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{
		"GatewayConnectParams": ConnectParams{MinProtocol: 1, MaxProtocol: 1, Client: ClientInfo{ID: "x", DisplayName: "y"}, Scopes: []string{"read"}, Auth: &ConnectAuth{Token: "t"}},
		"GatewayTopicsParams":  TopicsParams{[]string{"memory.*"}},
		"GatewayResumeParams":  ResumeParams{Epoch: "e", AfterSeq: 4, Topics: []string{"a.b"}},
		"GatewayEventsGap":     EventsGap{1, 2},
		"GatewaySystemStopping": SystemStopping{
			WithinMs: 5},
		"GatewayNoted": noted{3},
	} {
		schema, err := c.Compile("helix:openrpc#/components/schemas/" + name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		x, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(x); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		x.(map[string]any)["noSuchField"] = true
		if schema.Validate(x) == nil {
			t.Errorf("%s takes an unknown field", name)
		}
	}
}

// TestStringsByWord compares the scanner, which reads eight bytes at a time, with encoding/json for
// every byte at every position in a word.
func TestStringsByWord(t *testing.T) {
	t.Parallel()
	for at := range 24 {
		for c := range 256 {
			b := bytes.Repeat([]byte("a"), 24)
			b[at] = byte(c)
			text := append(append([]byte{'"'}, b...), '"')
			want := json.Valid(text) && c < 0x80 // invalid UTF-8 is replaced there and rejected here
			if got := validate(text) == nil; got != want {
				t.Fatalf("byte %#x at %d: %v", c, at, got)
			}
		}
	}
}
