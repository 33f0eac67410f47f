package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"helix/backend/fault"
	"helix/backend/gateway"
)

// attacker is a client that sends hostile input until ctx ends.
type attacker struct {
	name   string
	scopes []string
	do     func(ctx context.Context, a *attacker, c *gateway.Client)

	mu      sync.Mutex
	answers map[string]int
}

// call is a method with its encoded parameters.
type call struct {
	method string
	params json.RawMessage
}

func (a *attacker) run(ctx context.Context, b *bench) {
	c, err := b.dial(a.scopes...)
	if err != nil {
		a.count(err.Error())
		return
	}
	defer c.Close() //nolint:errcheck // no longer used
	a.do(ctx, a, c)
}

// send makes a call and records its outcome.
func (a *attacker) send(ctx context.Context, c *gateway.Client, x call) {
	var r json.RawMessage
	if err := c.Call(ctx, x.method, x.params, &r); ctx.Err() != nil {
		return
	} else if err != nil {
		f := fault.As(err)
		a.count(fmt.Sprintf("%s: %.100s", f.Kind, f.Message))
		return
	}
	var told struct {
		ErrorClass, Status string
		Error              struct{ Message string }
		Valid              *bool
	}
	json.Unmarshal(r, &told) //nolint:errcheck // ignore other forms
	switch {
	case told.ErrorClass != "":
		a.count("run ended: " + told.ErrorClass)
	case told.Status != "" || told.Error.Message != "":
		a.count(strings.TrimSpace(fmt.Sprintf("%s %.100s", told.Status, told.Error.Message)))
	case told.Valid != nil && !*told.Valid:
		a.count("not valid")
	default:
		a.count("result")
	}
}

func (a *attacker) count(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answers == nil {
		a.answers = map[string]int{}
	}
	a.answers[what]++
}

func (a *attacker) report() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(a.answers)) {
		fmt.Fprintf(os.Stderr, "%-26s %7d × %s\n", a.name, a.answers[what], what)
	}
}

// turns sends the calls one after the other, starting with the one at index first. Costly calls
// have a pause, because all clients of a user share a limit of 20 per second.
func turns(pause time.Duration, first int, calls []call) func(context.Context, *attacker, *gateway.Client) {
	return func(ctx context.Context, a *attacker, c *gateway.Client) {
		for i := first; ctx.Err() == nil; i++ {
			a.send(ctx, c, calls[i%len(calls)])
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}
}

// attackers returns all clients of the attack.
func (b *bench) attackers() ([]*attacker, error) {
	archive := filepath.Join(b.dir, "notes.zip")
	if err := os.WriteFile(archive, zipBomb(), 0o600); err != nil {
		return nil, err
	}
	const costly, cheap = 1500 * time.Millisecond, 50 * time.Millisecond
	r, w := []string{"read"}, []string{"read", "write"}
	enum := doublingEnum()
	bundle := map[string]any{"format": "helix-tools", "formatVersion": 1, "tools": []any{map[string]any{"definition": map[string]any{"name": "Bomb", "code": enum, "language": "typescript"}}}}
	text := `"` + strings.Repeat("x", 590_000) + `"`
	all := []*attacker{
		{name: "numbers", scopes: w, do: turns(costly, 0, numbers())},
		{name: "enum, checked", scopes: r, do: turns(cheap, 0, []call{{"tools.validate", params(map[string]any{"code": enum, "language": "typescript"})}})},
		{name: "enum, imported and run", scopes: w, do: turns(costly, 0, []call{
			{"tools.import", params(map[string]any{"bundle": bundle, "dryRun": true})},
			{"tools.execute", params(map[string]any{"code": enum, "language": "typescript"})},
		})},
		{name: "templates", scopes: w, do: turns(costly, 0, []call{
			skill(`{"name":"Many","steps":[{"stepId":"many","toolType":"transform","value":`+list(20_000, `"$.input"`)+`}]}`, text),
			skill(`{"name":"Many","outputMapping":`+list(20_000, `"$.input"`)+`,"steps":[{"stepId":"one","toolType":"transform","value":1}]}`, text),
			skill(`{"name":"Text","steps":[{"stepId":"text","toolType":"transform","value":{"$concat":`+list(9_000, `"$.input"`)+`}}]}`, text),
		})},
		{name: "templates, evaluated", scopes: r, do: turns(cheap, 0, []call{
			{"skills.evaluate", params(map[string]any{"as": "template", "expression": json.RawMessage(list(50_000, `"$"`)), "document": json.RawMessage(text)})},
			{"skills.evaluate", params(map[string]any{"as": "path", "expression": "$..*", "document": json.RawMessage(nest("[", 9000, "]"))})},
		})},
		{name: "archive", scopes: []string{"admin"}, do: turns(costly, 0, []call{{"memory.import_preview", params(map[string]any{"path": archive})}})},
		{name: "flood of frames", scopes: r, do: b.frames},
	}
	for i := range 8 {
		all = append(all, &attacker{name: fmt.Sprint("schemas, client ", i+1), scopes: w, do: turns(costly, 2*i, schemas())})
	}
	for i := range *endlessTools {
		all = append(all, &attacker{name: "endless microtasks", scopes: w, do: turns(costly, i, endless())})
	}
	for range 2 {
		all = append(all, &attacker{name: "flood of requests", scopes: r, do: requests})
	}
	return all, nil
}

// requests keeps slightly more calls in flight than a session may have.
func requests(ctx context.Context, a *attacker, c *gateway.Client) {
	var group sync.WaitGroup
	for range 70 {
		group.Go(func() {
			for ctx.Err() == nil {
				a.send(ctx, c, call{"tools.list", params(map[string]any{})})
			}
		})
	}
	group.Wait()
}

// frames opens connections that send requests and do not read the answers.
func (b *bench) frames(ctx context.Context, a *attacker, _ *gateway.Client) {
	frame := []byte(`{"jsonrpc":"2.0","id":1,"method":"rpc.discover","params":{}}`)
	hello := []byte(`{"jsonrpc":"2.0","id":0,"method":"connect","params":{"minProtocol":1,"maxProtocol":1,"client":{"id":"flood","version":"1","mode":"test"},"scopes":["read"]}}`)
	for ctx.Err() == nil {
		p, err := gateway.DialPipe(ctx, gateway.ClientOptions{URL: b.p.url, Token: b.token})
		if err != nil {
			a.count("not connected")
			time.Sleep(time.Second)
			continue
		}
		stop := context.AfterFunc(ctx, func() { p.Close() }) //nolint:errcheck // always returns nil
		err = p.Write(ctx, hello)
		n := 0
		for ; err == nil && n < 100_000; n++ {
			err = p.Write(ctx, frame)
		}
		a.count(fmt.Sprintf("connection ended by Helix: %v", err != nil))
		stop()
		p.Close() //nolint:errcheck // as above
	}
}

func params(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // all of it can be encoded
	}
	return b
}

// draft returns a call of unsaved code, with a schema for its parameters.
func draft(schema, value string) call {
	return call{"tools.execute", params(map[string]any{"code": "return 1", "draft": map[string]any{"parameters": json.RawMessage(schema)}, "params": json.RawMessage(value)})}
}

// skill returns a call of an unsaved skill.
func skill(definition, input string) call {
	return call{"skills.execute", params(map[string]any{"skill": json.RawMessage(definition), "input": json.RawMessage(input)})}
}

func list(n int, item string) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }

func nest(open string, n int, end string) string {
	return strings.Repeat(open, n) + "1" + strings.Repeat(end, n)
}

// names returns an object of n members.
func names(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"k%d":%d,`, i, i)
	}
	return `{` + b.String() + `"a":1}`
}

// numbers returns calls of tools and skills whose schemas calculate with large numbers.
func numbers() (all []call) {
	const large = "1e100000000"
	for _, keyword := range []string{`"minimum":0`, `"multipleOf":3`, `"exclusiveMaximum":1`, `"const":1`, `"type":"integer"`} {
		schema := `{"type":"object","properties":{"n":{` + keyword + `}}}`
		all = append(all, draft(schema, `{"n":`+large+`}`),
			skill(`{"name":"Taker","inputSchema":`+schema+`,"steps":[{"stepId":"one","toolType":"transform","value":1}]}`, `{"n":-`+large+`}`))
	}
	unique := `{"type":"object","properties":{"l":{"uniqueItems":true}}}`
	return append(all, draft(unique, `{"l":[`+large+`,1e-100000000]}`),
		skill(`{"name":"Later","steps":[{"stepId":"later","toolType":"builtin","toolName":"wait","parameters":{"seconds":1}},{"stepId":"use","toolType":"custom","toolName":"Sum","inputMapping":{"a":"$.input.n","b":"$.input.n"}}]}`, `{"n":`+large+`}`),
		skill(`{"name":"Made","steps":[{"stepId":"made","toolType":"transform","value":[1e999999999]}]}`, `{}`))
}

// schemas returns calls with schemas that cost more than they seem to, for a tool and for a skill.
func schemas() (all []call) {
	doubled := `{"type":"object"}`
	for range 12 {
		doubled = `{"allOf":[{"minProperties":0},` + `{"anyOf":[{"not":` + doubled + `},true]}]}`
	}
	var cyclic, rules []string
	for i := range 30 {
		var others []string
		for j := range 30 {
			if j != i {
				others = append(others, fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, j))
			}
		}
		cyclic = append(cyclic, fmt.Sprintf(`"d%d":{"allOf":[%s]}`, i, strings.Join(others, ",")))
	}
	for i := range 300 {
		rules = append(rules, fmt.Sprintf(`"(a|b|k)*%d?$":{}`, i))
	}
	row := list(20, `[1,2,{"a":1}]`)
	for _, x := range []struct{ schema, value string }{
		{`{"propertyNames":` + doubled + `}`, names(2000)},
		{`{"$ref":"#/$defs/d0","$defs":{` + strings.Join(cyclic, ",") + `}}`, `{"a":1}`},
		{`{"properties":{"l":{"items":{"enum":` + list(50, row) + `}}}}`, `{"l":` + list(15, list(1000, `[1,2,{"a":1}]`)) + `}`},
		{`{"patternProperties":{` + strings.Join(rules, ",") + `}}`, names(3000)},
		{`{"properties":{"s":{"pattern":"^(a+)+$"}}}`, `{"s":"` + strings.Repeat("a", 300_000) + `!"}`},
		{`{"properties":{"s":{"pattern":"(a?){500}a{500}"}}}`, `{"s":"` + strings.Repeat("a", 300_000) + `"}`},
		{`{"$dynamicAnchor":"x","properties":{"a":{"anyOf":` + list(4, `{"$dynamicRef":"#x"}`) + `}},"required":["b"]}`, nest(`{"a":`, 50, "}")},
		{`{"dependencies":{"a":` + doubled + `,"k1":` + doubled + `}}`, names(500)},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"l":{"items":[true],"additionalItems":` + doubled + `}}}`, `{"l":` + list(3000, "{}") + `}`},
		{`{"properties":{"l":{"uniqueItems":true}}}`, `{"l":` + list(3000, nest("[", 20, "]")) + `}`},
	} {
		all = append(all, draft(x.schema, x.value),
			skill(`{"name":"Taker","inputSchema":`+x.schema+`,"steps":[{"stepId":"one","toolType":"transform","value":1}]}`, x.value))
	}
	return all
}

// endless returns calls of programs that never end and never wait.
func endless() (all []call) {
	for _, code := range []string{
		`const next = () => Promise.resolve().then(next); return next();`,
		`for (;;) await null;`,
		`for (;;) queueMicrotask(() => {});`,
	} {
		all = append(all, call{"tools.execute", params(map[string]any{"code": code})})
	}
	return all
}

// doublingEnum returns a short TypeScript source whose last constant is 2⁶⁰ characters long.
func doublingEnum() string {
	text, last := `enum E{a="aaaaaaaa"`, "a"
	for i := range 57 {
		name := fmt.Sprintf("b%d", i)
		text += fmt.Sprintf(",%s=%s+%s", name, last, last)
		last = name
	}
	return text + "}"
}

// zipBomb returns an archive of 2 MiB that unpacks to about 2 GiB of notes.
func zipBomb() []byte {
	const files, size = 64, 32 << 20
	line := []byte("A note that is there again and again.\n")
	note := bytes.Repeat(line, size/len(line))
	var packed, out bytes.Buffer
	f, err := flate.NewWriter(&packed, flate.BestSpeed)
	must(err)
	_, err = f.Write(note)
	must(err)
	must(f.Close())
	z := zip.NewWriter(&out)
	for i := range files {
		w, err := z.CreateRaw(&zip.FileHeader{Name: fmt.Sprintf("notes/%d.md", i), Method: zip.Deflate, CRC32: crc32.ChecksumIEEE(note),
			CompressedSize64: uint64(packed.Len()), UncompressedSize64: uint64(len(note))})
		must(err)
		_, err = w.Write(packed.Bytes())
		must(err)
	}
	must(z.Close())
	return out.Bytes()
}

// must is for writes to memory, which cannot fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
