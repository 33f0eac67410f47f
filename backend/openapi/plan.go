package openapi

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"mime"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/schema"
)

// Plan is everything about one operation that a call needs. It is immutable and safe for concurrent use.
type Plan struct {
	Operation
	// Input is the schema of the input for models and forms: without references, cut where it is
	// too deep or refers to itself.
	Input json.RawMessage

	d      *Document
	params []parameter
	body   *body
	check  func() (*schema.Schema, string) // of the complete input; compiled when it is needed
	broken []string                        // references in the input that lead nowhere

	responses map[string]any
	drifts    sync.Map // compiled schemas of responses by their place; nil: none
	accept    string   // media types of the successful responses
	servers   []Server // of the operation or path; empty: those of the document
}

// parameter is one parameter of an operation.
type parameter struct {
	arg      string // its name in the input
	name, in string
	style    string
	explode  bool
	reserved bool
	required bool
	media    string // not empty: the value is written in this media type
	schema   any
	text     string // description
}

// body is what an operation accepts as its body.
type body struct {
	required bool
	text     string
	media    []media // in order of preference; not empty
}

type media struct {
	kind     string // media type
	schema   any
	encoding map[string]any
}

// managed are headers that no parameter sets: the standard excludes the first three, and the others
// belong to the connection or to authentication.
var managed = []string{"Accept", "Content-Type", "Authorization", "Content-Length", "Cookie", "Host", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Proxy-Authorization"}

func headerName(s string) bool { return httpguts.ValidHeaderFieldName(s) }

// parameters reads the parameters of an operation: its own, and those of its path that it does not
// replace.
func (d *Document) parameters(path string, item, raw map[string]any) (out []parameter, err error) {
	own, _ := raw["parameters"].([]any)
	shared, _ := item["parameters"].([]any)
	taken := map[string]bool{}
	for _, x := range slices.Concat(own, shared) {
		m, err := d.follow(x)
		if err != nil {
			return nil, err
		}
		p := parameter{name: text(m["name"]), in: text(m["in"]), required: truth(m["required"]), reserved: truth(m["allowReserved"]), schema: m["schema"], text: clip(text(m["description"]), 500)}
		if p.name == "" || taken[p.in+" "+p.name] || !slices.Contains([]string{"path", "query", "header", "cookie"}, p.in) {
			continue
		}
		taken[p.in+" "+p.name] = true
		if p.in == "header" && (!headerName(p.name) || slices.Contains(managed, textproto.CanonicalMIMEHeaderKey(p.name))) ||
			p.in == "cookie" && !headerName(p.name) ||
			p.in == "path" && !strings.Contains(path, "{"+p.name+"}") {
			continue
		}
		p.style = cmp.Or(text(m["style"]), map[string]string{"path": "simple", "header": "simple", "query": "form", "cookie": "form"}[p.in])
		p.explode = p.style == "form"
		if x, ok := m["explode"].(bool); ok {
			p.explode = x
		}
		for _, kind := range slices.Sorted(maps.Keys(object(m["content"]))) {
			p.media, p.schema = kind, object(object(m["content"])[kind])["schema"]
			break
		}
		p.required = p.required || p.in == "path"
		out = append(out, p)
	}
	for _, m := range inTemplate.FindAllStringSubmatch(path, -1) { // descriptions forget some
		if !taken["path "+m[1]] {
			taken["path "+m[1]] = true
			out = append(out, parameter{name: m[1], in: "path", style: "simple", required: true, schema: map[string]any{"type": "string"}})
		}
	}
	names(out)
	return out, nil
}

var inTemplate = regexp.MustCompile(`\{([^{}/]+)\}`)

// names sets the names in the input. Parameters with the same name in two places get theirs in the
// name; so does one that has the name of the body.
func names(list []parameter) {
	count := map[string]int{"body": 1, "contentType": 1}
	for _, p := range list {
		count[p.name]++
	}
	for i, p := range list {
		list[i].arg = p.name
		if count[p.name] > 1 {
			list[i].arg = p.name + "_" + p.in
		}
	}
}

// preference orders media types: JSON carries all values, the others only some.
func preference(kind string) int {
	switch {
	case isJSON(kind):
		return 1
	case kind == "application/x-www-form-urlencoded":
		return 2
	case kind == "multipart/form-data":
		return 3
	case strings.HasPrefix(kind, "text/"):
		return 4
	case kind == "application/octet-stream" || kind == "*/*" || strings.HasPrefix(kind, "image/") || strings.HasPrefix(kind, "audio/") || strings.HasPrefix(kind, "application/"):
		return 5
	}
	return 0 // cannot be sent
}

func isJSON(kind string) bool {
	base, _, err := mime.ParseMediaType(kind)
	if err != nil {
		base = kind
	}
	return base == "application/json" || strings.HasSuffix(base, "+json") || base == "text/json"
}

func (d *Document) readBody(raw map[string]any) (*body, error) {
	m, err := d.follow(raw["requestBody"])
	if err != nil || m == nil {
		return nil, err
	}
	b := &body{required: truth(m["required"]), text: clip(text(m["description"]), 500)}
	content := object(m["content"])
	for _, kind := range slices.Sorted(maps.Keys(content)) {
		if base, _, err := mime.ParseMediaType(kind); err != nil || preference(base) == 0 {
			continue
		}
		x := object(content[kind])
		if kind == "*/*" && d.isStructured(x["schema"]) { // generators write it for whatever they send as JSON
			if content["application/json"] != nil {
				continue
			}
			kind = "application/json"
		}
		b.media = append(b.media, media{kind, x["schema"], object(x["encoding"])})
	}
	base := func(m media) int { k, _, _ := mime.ParseMediaType(m.kind); return preference(k) }
	slices.SortStableFunc(b.media, func(x, y media) int { return cmp.Compare(base(x), base(y)) })
	if len(b.media) == 0 {
		if b.required {
			return nil, fault.Invalidf("None of the media types of the body are supported.")
		}
		return nil, nil
	}
	return b, nil
}

// isStructured reports whether a schema describes an object or an array.
func (d *Document) isStructured(v any) bool {
	m, err := d.follow(v)
	return err == nil && (m["type"] == "object" || m["type"] == "array" || m["properties"] != nil || m["allOf"] != nil)
}

// Plan prepares calls of the operation with a key. The error is NotFound for an unknown key and
// Invalid for an operation that cannot be called.
func (d *Document) Plan(key string) (*Plan, error) {
	o, ok := d.Operation(key)
	if !ok {
		return nil, fault.NotFoundf("The API has no operation %.200q.", key)
	}
	item, err := d.follow(object(d.root["paths"])[o.Path])
	if err != nil {
		return nil, fault.Invalidf("Couldn't read %s: %s.", key, err)
	}
	raw := object(item[strings.ToLower(o.Method)])
	p := &Plan{Operation: o, d: d, responses: object(raw["responses"])}
	if p.params, err = d.parameters(o.Path, item, raw); err != nil {
		return nil, fault.Invalidf("Couldn't read %s: %s.", key, err)
	}
	if p.body, err = d.readBody(raw); err != nil {
		return nil, fault.Invalidf("Couldn't read %s: %s.", key, err)
	}
	if p.servers = d.servers(raw["servers"]); len(p.servers) == 0 {
		p.servers = d.servers(item["servers"])
	}
	p.accept = p.accepts()
	b := d.bundle(false)
	root := p.inputSchema(b)
	p.broken = b.broken
	p.Input = b.forModel(root)
	p.check = sync.OnceValues(func() (*schema.Schema, string) { return compile(b.document(root)) })
	return p, nil
}

// inputSchema describes the input as one object: the parameters by name, and the body.
func (p *Plan) inputSchema(b *bundler) map[string]any {
	props, required := map[string]any{}, []any{}
	for _, x := range p.params {
		s := b.convert(x.schema)
		if m, ok := s.(map[string]any); ok && x.text != "" && m["description"] == nil && m["$ref"] == nil {
			m["description"] = x.text
		}
		props[x.arg] = s
		if x.required {
			required = append(required, x.arg)
		}
	}
	if p.body != nil {
		var options, kinds []any
		for _, m := range p.body.media {
			kinds = append(kinds, m.kind)
			options = append(options, p.bodySchema(b, m))
		}
		props["body"] = options[0]
		if len(options) > 1 {
			props["contentType"] = map[string]any{"enum": kinds, "description": "Media type of the body. Default: the first."}
			if !sameSchemas(options) {
				props["body"] = map[string]any{"anyOf": options}
			}
		}
		if p.body.required {
			required = append(required, "body")
		}
	}
	root := map[string]any{"type": "object", "properties": props, "additionalProperties": false}
	if len(required) > 0 {
		root["required"] = required
	}
	return root
}

func sameSchemas(list []any) bool {
	first, _ := jcs.Marshal(list[0])
	for _, x := range list[1:] {
		if other, _ := jcs.Marshal(x); string(other) != string(first) {
			return false
		}
	}
	return true
}

// fileSchema is a file in the input: text, or a blob of this device.
var fileSchema = map[string]any{"anyOf": []any{
	map[string]any{"type": "string"},
	map[string]any{"type": "object", "additionalProperties": false, "required": []any{"blob"}, "properties": map[string]any{
		"blob":        map[string]any{"type": "string", "pattern": "^[0-9a-f]{64}$", "description": "SHA-256 of a stored file."},
		"filename":    map[string]any{"type": "string", "maxLength": json.Number("255")},
		"contentType": map[string]any{"type": "string", "maxLength": json.Number("100")},
	}},
}}

// bodySchema describes a body in one media type. Files in it can be blobs.
func (p *Plan) bodySchema(b *bundler, m media) any {
	kind, _, _ := mime.ParseMediaType(m.kind)
	switch preference(kind) {
	case 4:
		return map[string]any{"type": "string"}
	case 5:
		return fileSchema
	case 3:
		s, err := p.d.follow(m.schema)
		if err != nil {
			return true
		}
		out, _ := b.convert(s).(map[string]any)
		props := object(out["properties"])
		for name, x := range object(s["properties"]) {
			x, _ := p.d.follow(x)
			if isFile(x) {
				props[name] = fileSchema
			} else if items, _ := p.d.follow(x["items"]); isFile(items) {
				props[name] = map[string]any{"type": "array", "items": fileSchema}
			}
		}
		return out
	}
	return b.convert(m.schema)
}

func isFile(s map[string]any) bool {
	return s["format"] == "binary" || s["contentMediaType"] != nil || s["type"] == "file"
}

// Check validates an input. The findings name what is wrong; an error is about the work of checking.
func (p *Plan) Check(ctx context.Context, input json.RawMessage) ([]schema.Finding, error) {
	v, size, err := jcs.DecodeSized(input, maxDepth, 0)
	if err != nil {
		return nil, fault.Invalidf("The parameters aren't valid JSON: %s.", err)
	}
	check, _ := p.check()
	return check.CheckSized(ctx, v, size)
}

// Notes returns what of the input is not checked before it is sent, and why.
func (p *Plan) Notes() []string {
	out := slices.Clone(p.broken)
	if _, note := p.check(); note != "" {
		out = append(out, note)
	}
	return out
}

// TakesHeader reports whether a header is a parameter of the operation.
func (p *Plan) TakesHeader(name string) bool {
	return slices.ContainsFunc(p.params, func(x parameter) bool { return x.in == "header" && strings.EqualFold(x.name, name) })
}

// Hosts returns the addresses that the operation is sent to instead of the chosen server; usually none.
func (p *Plan) Hosts() []Server { return p.servers }
