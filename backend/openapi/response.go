package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"

	"helix/backend/jcs"
	"helix/backend/safehttp"
	"helix/backend/schema"
)

// Limits of a response.
const (
	MaxResponse = 16 << 20 // read
	MaxReturned = 1 << 20  // returned; more becomes a file
	headBytes   = 8 << 10  // of a file that are returned with it
)

// Response is a response in the form in which callers get it.
type Response struct {
	Status  int               `json:"status"`
	OK      bool              `json:"ok"`
	Headers map[string]string `json:"headers"`
	// Body is the parsed JSON, the text, or the beginning of a file.
	Body      any    `json:"body"`
	Truncated bool   `json:"truncated,omitempty"`
	Blob      string `json:"blob,omitempty"` // SHA-256 of the complete body, if it became a file

	Warnings []string        `json:"-"`
	NextPage json.RawMessage `json:"-"` // the input of the next page
	File     []byte          `json:"-"` // the body to store as a file; nil: it is not
}

// kept are the headers that callers get.
var kept = []string{"Content-Type", "Etag", "Last-Modified", "Link", "Location", "Retry-After", "X-Request-Id", "X-Total-Count",
	"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}

// Read converts the response to a request with an input.
func (p *Plan) Read(ctx context.Context, input json.RawMessage, r *safehttp.Response) *Response {
	out := &Response{Status: r.Status, OK: r.Status >= 200 && r.Status < 300, Headers: map[string]string{}}
	for _, k := range kept {
		if v := r.Header.Get(k); v != "" {
			out.Headers[strings.ToLower(k)] = clip(v, 2000)
		}
	}
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	body := decoded(r.Body, params["charset"])
	var value any
	parsed := false
	if isJSON(kind) && len(body) > 0 {
		var err error
		if value, err = jcs.Decode(body, 512, 0); err == nil {
			parsed = true
		} else {
			out.Warnings = append(out.Warnings, "The response says that it is JSON, but it isn't: "+err.Error()+".")
		}
	}
	textual := utf8.Valid(body) && !strings.Contains(string(body[:min(len(body), 512)]), "\x00")
	switch {
	case len(body) == 0:
	case len(r.Body) > MaxReturned || !parsed && !textual:
		out.File, out.Truncated = r.Body, true
		if textual {
			out.Body = strings.ToValidUTF8(string(body[:min(len(body), headBytes)]), "")
		}
	case parsed:
		out.Body = value
	default:
		out.Body = string(body)
	}
	if parsed && out.OK {
		out.Warnings = append(out.Warnings, p.drift(ctx, r.Status, kind, value)...)
	}
	if out.OK {
		out.NextPage = p.nextPage(input, r.Header, value)
	}
	return out
}

// decoded returns a text in UTF-8 and without a byte order mark. One in an unknown encoding stays as it is.
func decoded(body []byte, charset string) []byte {
	if charset != "" && !strings.EqualFold(charset, "utf-8") {
		if e, err := htmlindex.Get(charset); err == nil {
			if text, err := e.NewDecoder().Bytes(body); err == nil {
				return text
			}
		}
	}
	return bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
}

// drift returns how a response differs from its schema.
func (p *Plan) drift(ctx context.Context, status int, kind string, value any) []string {
	check := p.responseCheck(status, kind)
	if check == nil {
		return nil
	}
	raw, err := jcs.Marshal(value)
	if err != nil {
		return nil
	}
	v, size, err := jcs.DecodeSized(raw, maxDepth, 0)
	if err != nil {
		return nil
	}
	list, err := check.CheckSized(ctx, v, size)
	if err != nil || len(list) == 0 {
		return nil
	}
	return []string{"schema_drift: the response doesn't match the API description at " + strconv.Quote(clip(list[0].Path, 200)) + ": " + list[0].Message + "."}
}

// responseCheck returns the compiled schema of the response with a status, or nil.
func (p *Plan) responseCheck(status int, kind string) *schema.Schema {
	key, s := p.responseSchema(status, kind)
	if c, ok := p.drifts.Load(key); ok {
		return c.(*schema.Schema)
	}
	if s == nil {
		return nil
	}
	var check *schema.Schema
	b := p.d.bundle(true)
	if root, ok := b.convert(s).(map[string]any); ok {
		check, _ = compile(b.document(root))
	}
	p.drifts.Store(key, check)
	return check
}

// responseSchema returns the schema of the response with a status and where it is among the responses, or nil.
func (p *Plan) responseSchema(status int, kind string) (key string, schema any) {
	code := strconv.Itoa(status)
	for _, k := range []string{code, code[:1] + "XX", code[:1] + "xx", "default"} {
		m, err := p.d.follow(p.responses[k])
		if err != nil || m == nil {
			continue
		}
		content := object(m["content"])
		for _, t := range slices.Sorted(maps.Keys(content)) {
			if base, _, _ := mime.ParseMediaType(t); base == kind || base == "*/*" {
				return k + " " + t, object(content[t])["schema"]
			}
		}
		return "", nil
	}
	return "", nil
}

// cursors are members of responses that name the next page, and tokens the parameters that take them.
var (
	cursors = []string{"next_page_token", "nextPageToken", "next_token", "nextToken", "next_cursor", "nextCursor", "cursor", "continuation"}
	tokens  = []string{"page_token", "pageToken", "next_token", "nextToken", "cursor", "after", "starting_after", "continuation"}
	sizes   = []string{"limit", "per_page", "perPage", "page_size", "pageSize", "count"} // parameters for the length of a page
)

// nextPage returns the input for the next page: from the Link header, an address or a cursor in the body, or by
// counting pages or items. It returns nil if there is none or it is not known.
func (p *Plan) nextPage(input json.RawMessage, h http.Header, body any) json.RawMessage {
	v, err := jcs.Decode(input, maxDepth, 0)
	in, ok := v.(map[string]any)
	if err != nil || !ok || !p.Paginated {
		return nil
	}
	query := map[string]*parameter{}
	for i, x := range p.params {
		if x.in == "query" {
			query[x.name] = &p.params[i]
		}
	}
	changed := false
	next, m := linkNext(h.Values("Link")), object(body)
	if address, ok := m["next"].(string); ok && next == nil && strings.Contains(address, "?") {
		next, _ = url.Parse(address) // nil if it is none
	}
	_, nextIsKnown := m["next"]
	for _, c := range cursors {
		s, ok := m[c].(string)
		nextIsKnown = nextIsKnown || ok
		for _, t := range tokens {
			if x := query[t]; s != "" && x != nil && !changed && next == nil {
				in[x.arg], changed = s, true
			}
		}
	}
	switch {
	case next != nil:
		for name, values := range next.Query() {
			if x := query[name]; x != nil && len(values) == 1 {
				in[x.arg], changed = typed(values[0], in[x.arg], x.schema), true
			}
		}
	case !changed && !nextIsKnown && len(h.Values("Link")) == 0:
		changed = count(in, query, body)
	}
	if !changed {
		return nil
	}
	out, err := jcs.Marshal(in)
	if err != nil {
		return nil
	}
	return out
}

// cappedPage is the length of a page above which servers may return fewer items than were asked for.
const cappedPage = 100

// count sets the parameters of the next page where it is chosen by its number or by the number of its first item.
func count(in map[string]any, query map[string]*parameter, body any) bool {
	items, ok := body.([]any)
	if !ok { // the only list in an object
		for _, v := range object(body) {
			list, isList := v.([]any)
			if isList && items != nil {
				return false
			}
			if isList {
				items = list
			}
		}
	}
	number := func(name string, otherwise int64) int64 {
		x := query[name]
		if x == nil {
			return otherwise
		}
		for _, v := range []any{in[x.arg], object(x.schema)["default"]} {
			if n, err := strconv.ParseInt(text(v), 10, 64); err == nil && n >= 0 && n < 1<<40 {
				return n
			}
		}
		return otherwise
	}
	for _, name := range sizes {
		if n := number(name, 1); n <= cappedPage && int64(len(items)) < n { // it was the last one
			return false
		}
	}
	switch {
	case query["page"] != nil:
		in[query["page"].arg] = json.Number(strconv.FormatInt(number("page", 1)+1, 10))
	case query["offset"] != nil:
		in[query["offset"].arg] = json.Number(strconv.FormatInt(number("offset", 0)+int64(len(items)), 10))
	default:
		return false
	}
	return true
}

// typed returns the text of a query parameter as a number if the parameter is one.
func typed(s string, old, schema any) any {
	_, wasNumber := old.(json.Number)
	if t := object(schema)["type"]; (wasNumber || t == "integer" || t == "number") && jcs.NumberFits(s) && json.Valid([]byte(s)) {
		return json.Number(s)
	}
	return s
}

// link is one link of a Link header: its address, which may contain commas, and its parameters.
var link = regexp.MustCompile(`<([^>]*)>((?:[^,"<]|"[^"]*")*)`)

// linkNext returns the target of the link with the relation next; see RFC 8288.
func linkNext(headers []string) *url.URL {
	for _, h := range headers {
		for _, l := range link.FindAllStringSubmatch(h, -1) {
			for _, p := range strings.Split(l[2], ";") {
				k, v, _ := strings.Cut(strings.TrimSpace(p), "=")
				if strings.EqualFold(k, "rel") && slices.Contains(strings.Fields(strings.Trim(v, `"`)), "next") {
					if u, err := url.Parse(l[1]); err == nil {
						return u
					}
				}
			}
		}
	}
	return nil
}
