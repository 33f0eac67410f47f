package gateway

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// codecSample has each shape that the codec handles itself or delegates.
type codecSample struct {
	Text    string                 `json:"text"`
	Named   namedText              `json:"named,omitempty"`
	Yes     bool                   `json:"yes"`
	I8      int8                   `json:"i8"`
	I       int                    `json:"i,omitempty"`
	U       uint16                 `json:"u"`
	F       float64                `json:"f"`
	F32     float32                `json:"f32,omitempty"`
	ID      uuid.UUID              `json:"id"`
	At      time.Time              `json:"at,omitzero"`
	AtPtr   *time.Time             `json:"atPtr,omitempty"`
	Raw     json.RawMessage        `json:"raw"`
	Any     any                    `json:"any"`
	Bytes   []byte                 `json:"bytes"`
	List    []string               `json:"list"`
	Deep    [][]int                `json:"deep,omitempty"`
	Map     map[string]codecSample `json:"map,omitempty"`
	Next    *codecSample           `json:"next"`
	Big     BigInt                 `json:"big"`
	Fixed   [2]int                 `json:"fixed"`
	Number  json.Number            `json:"number,omitempty"`
	Inner   embedding              `json:"inner"`
	Untaged int
	Skipped string        `json:"-"`
	Wait    time.Duration `json:"wait,omitzero"`
}

type namedText string

type embedding struct {
	base
	Own string `json:"own"`
}

type base struct {
	B string `json:"b"`
}

var codecSamples = []string{
	`{}`,
	`{"text":"plain text of more than eight bytes","yes":true,"i8":-3,"i":12345678901,"u":65535,"f":1.5e-7,"f32":0.1}`,
	`{"text":"q\"b\\s\/\b\f\n\r\t\u0001\u00e9\u2028 \ud83d\ude00 \ud800 é 漢字 <&>","named":"n","yes":false}`,
	`{"id":"0191b0a4-7c3d-7a00-8000-000000000001","at":"2026-11-21T22:00:00.123456789+02:00","atPtr":"2026-11-21T22:00:00Z"}`,
	`{"raw":{"a": [1, 2, {"b":"]}"}], "c" : null},"any":{"x":[1,"two",null,true,{"y":2.5}]},"bytes":"aGVsbG8="}`,
	`{"raw":null,"any":null,"bytes":null,"list":null,"deep":null,"map":null,"next":null,"id":"0191b0a4-7c3d-7a00-8000-000000000001"}`,
	`{"list":[],"deep":[[],[1,2,3],null],"map":{"k\n":{"text":"inner","list":["a","b"]}},"next":{"next":{"text":"deep"}}}`,
	`{"big":"9007199254740993","fixed":[1,2],"number":12.50,"inner":{"b":"x","own":"y"},"Untaged":7,"wait":5000000000}`,
	`{"TEXT":"case","unknown":{"deep":[{"x":"}"}]},"List":["z"],"untaged":3}`,
	`{"i8":300}`, `{"i8":1.5}`, `{"u":-1}`, `{"text":5}`, `{"yes":"no"}`, `{"list":"no"}`, `{"map":[]}`, `{"next":3}`, `{"id":"short"}`, `{"at":"never"}`, `{"f":"1"}`,
	`{"next":{"list":[1]}}`, `{"fixed":[1,2,3],"f":1e400}`, `null`, ` { "text" : "spaces" , "list" : [ "a" , "b" ] } `,
}

func TestCodecMatchesEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, in := range codecSamples {
		sameAsStandard(t, []byte(in))
	}
}

func FuzzCodec(f *testing.F) {
	for _, in := range codecSamples {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if validate(in) == nil {
			sameAsStandard(t, in)
		}
	})
}

// sameAsStandard decodes with both, then encodes the results with both.
func sameAsStandard(t *testing.T, in []byte) {
	t.Helper()
	var want, got codecSample
	wantErr, gotErr := json.Unmarshal(in, &want), readJSON(in, &got)
	if (wantErr == nil) != (gotErr == nil) {
		t.Fatalf("%s: %v, want %v", in, gotErr, wantErr)
	}
	if wantErr != nil {
		return // what was decoded before the error may differ
	}
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("%s:\n got %+v\nwant %+v", in, got, want)
	}
	sameEncoding(t, want)
	sameEncoding(t, &want)
}

func sameEncoding(t *testing.T, v any) {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	wantErr := enc.Encode(v)
	got, gotErr := appendJSON(nil, v)
	if (wantErr == nil) != (gotErr == nil) {
		t.Fatalf("%+v: %v, want %v", v, gotErr, wantErr)
	}
	if want := strings.TrimSuffix(buf.String(), "\n"); wantErr == nil && want != string(got) {
		t.Fatalf("%+v:\n got %s\nwant %s", v, got, want)
	}
}

func TestEncodeOddValues(t *testing.T) {
	t.Parallel()
	for _, v := range []any{
		nil, "", "\xff\xfe broken \xe2\x82", strings.Repeat("é", 9), "seven77\u2028", "\x7f", 1.0, math.Copysign(0, -1), 1e21, 1e-7, 123456789.125, float32(0.1), math.NaN(), math.Inf(1),
		json.RawMessage(nil), json.RawMessage(`{ "a" : [ 1 ] , "b":"<é>" }`), json.RawMessage(`{`), []byte("x"), []byte(nil), map[string]int{"b": 1, "a": 2}, map[string]int(nil),
		map[int]string{2: "b", 10: "a"}, struct{}{}, []any{1, "a", nil, []string{"x"}}, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), [3]bool{true}, BigInt(1 << 60),
		struct {
			A uuid.UUID  `json:"a,omitempty"`
			B *uuid.UUID `json:"b,omitempty"`
			C []uuid.UUID
			D struct{ X int } `json:",omitempty"`
		}{C: []uuid.UUID{{1}}},
		make(chan int), complex(1, 2),
	} {
		sameEncoding(t, v)
	}
	type loop struct{ Next *loop }
	l := &loop{}
	l.Next = l
	if _, err := appendJSON(nil, l); err == nil {
		t.Fatal("a cycle was encoded")
	}
}
