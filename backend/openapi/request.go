package openapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/safehttp"
)

// MaxBody is the largest request body, in bytes.
const MaxBody = 4 << 20

// BuildOptions configure Build.
type BuildOptions struct {
	Server string // the chosen address, with its variables replaced; see ServerURL
	// Blob returns the content of a stored file; nil: there are none.
	Blob func(sha256 string) ([]byte, error)
}

// Request is a request that was built. Credentials are kept apart from the rest, so that it can be
// shown without them.
type Request struct {
	Method string
	URL    string
	Header http.Header
	Body   []byte

	secretHeaders http.Header
	secretQuery   []string
	secretCookies []string
}

func (r *Request) secretHeader(name, value string) {
	if r.secretHeaders == nil {
		r.secretHeaders = http.Header{}
	}
	r.secretHeaders.Set(name, value)
}

// Secrets reports whether the request has credentials.
func (r *Request) Secrets() bool {
	return len(r.secretHeaders)+len(r.secretQuery)+len(r.secretCookies) > 0
}

// HTTP returns the complete request, with its credentials.
func (r *Request) HTTP() safehttp.Request {
	out := safehttp.Request{Method: r.Method, URL: r.URL, Header: r.Header.Clone(), Body: r.Body}
	for k, v := range r.secretHeaders {
		out.Header[k] = v
		out.Sensitive = append(out.Sensitive, k)
	}
	if len(r.secretQuery) > 0 {
		sep := "?"
		if strings.Contains(r.URL, "?") {
			sep = "&"
		}
		out.URL += sep + strings.Join(r.secretQuery, "&")
	}
	if len(r.secretCookies) > 0 {
		all := r.secretCookies
		if c := r.Header.Get("Cookie"); c != "" {
			all = append([]string{c}, all...)
		}
		out.Header.Set("Cookie", strings.Join(all, "; "))
	}
	return out
}

// Masked returns the headers and the address to show to people: credentials are named but not shown.
func (r *Request) Masked() (http.Header, string) {
	h, address := r.Header.Clone(), r.URL
	for k := range r.secretHeaders {
		h.Set(k, "•••")
	}
	if len(r.secretCookies) > 0 {
		h.Set("Cookie", "•••")
	}
	for _, q := range r.secretQuery {
		sep := "?"
		if strings.Contains(address, "?") {
			sep = "&"
		}
		name, _, _ := strings.Cut(q, "=")
		address += sep + name + "=•••"
	}
	return h, address
}

// ServerURL returns the address of a server with its variables replaced, resolved against the
// address that the description was read from. The error is Invalid.
func (d *Document) ServerURL(s Server, values map[string]string) (string, error) {
	address, forbidden := s.URL, "?#@\\%"
	if d.Protocol == SMTP { // its path is a sender; checkServer refuses a user name
		forbidden = "?#\\%"
	}
	for _, v := range s.Variables {
		value, given := values[v.Name]
		if !given {
			value = v.Default
		}
		if value == "" && !v.hasDefault {
			return "", fault.Invalidf("The server variable %s needs a value.", v.Name)
		}
		if len(v.Enum) > 0 && !slices.Contains(v.Enum, value) {
			return "", fault.Invalidf("The server variable %s must be one of: %s.", v.Name, strings.Join(v.Enum, ", "))
		}
		if strings.ContainsAny(value, forbidden) || strings.ContainsFunc(value, isControl) || hasDotSegment(value) {
			return "", fault.Invalidf("The value of the server variable %s can't be part of an address.", v.Name)
		}
		address = strings.ReplaceAll(address, "{"+v.Name+"}", value)
	}
	u, err := url.Parse(address)
	if err != nil || strings.ContainsAny(address, "{}") {
		return "", fault.Invalidf("The server address %.200q isn't valid.", address)
	}
	if !u.IsAbs() || u.Host == "" {
		base, err := url.Parse(d.base)
		if err != nil || base.Host == "" {
			return "", fault.Invalidf("The API description names no server. Choose its address.")
		}
		u = base.ResolveReference(u)
	}
	return d.checkServer(u)
}

// SMTP is the protocol whose servers have addresses of the form smtp://host:port/sender.
const SMTP = "smtp"

// checkServer returns a server's address in the form that Build uses.
func (d *Document) checkServer(u *url.URL) (string, error) {
	scheme := u.Scheme == "https" || u.Scheme == "http"
	if d.Protocol == SMTP {
		if scheme = u.Scheme == "smtp" || u.Scheme == "smtps"; !scheme || u.Port() == "" || !strings.Contains(u.Path, "@") {
			return "", fault.Invalidf("The server address %.200q isn't valid. It must have the form smtp://smtp.example.com:587/me@example.com, or smtps:// for a port with TLS.", u.Redacted())
		}
	}
	if !scheme || u.Hostname() == "" || u.User != nil || u.Opaque != "" || hasDotSegment(u.EscapedPath()) {
		return "", fault.Invalidf("The server address %.200q isn't valid. It must start with https:// and have no user name.", u.Redacted())
	}
	u.RawQuery, u.Fragment, u.RawFragment = "", "", ""
	u.Host = strings.ToLower(u.Host)
	return strings.TrimSuffix(u.String(), "/"), nil
}

// CheckServer validates an address that a person chose as the server.
func (d *Document) CheckServer(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fault.Invalidf("The server address isn't valid.")
	}
	return d.checkServer(u)
}

func wrong(arg, format string, args ...any) error {
	return fault.Invalidf("The parameter %s %s.", arg, fmt.Sprintf(format, args...))
}

// Build returns the request for an input that Check has accepted. Values never change the structure
// of the request: a path has the segments of its template, and a query and headers have the
// parameters of the operation.
func (p *Plan) Build(input json.RawMessage, o BuildOptions) (*Request, error) {
	v, err := jcs.Decode(input, maxDepth, 0)
	if err != nil {
		return nil, fault.Invalidf("The parameters aren't valid JSON: %s.", err)
	}
	in, ok := v.(map[string]any)
	if !ok {
		return nil, fault.Invalidf("The parameters must be an object.")
	}
	r := &Request{Method: p.Method, Header: http.Header{}}
	path, query := p.Path, make([]byte, 0, 64+len(input))
	var cookies []string
	for _, x := range p.params {
		v, given := in[x.arg]
		if !given {
			if x.required {
				return nil, wrong(x.arg, "is required")
			}
			continue
		}
		if x.media != "" && isJSON(x.media) {
			raw, err := jcs.Marshal(v)
			if err != nil {
				return nil, wrong(x.arg, "can't be written as JSON")
			}
			v = string(raw)
		}
		switch x.in {
		case "path":
			if path, err = x.inPath(path, v); err != nil {
				return nil, err
			}
		case "query":
			if s, ok := scalar(v); ok { // what form returns, without making texts
				query = appendEscaped(append(appendEscaped(append(query, '&'), x.name, x.reserved), '='), s, x.reserved)
				continue
			}
			s, err := form(x.style, x.name, v, x.explode, func(s string) string { return escape(s, x.reserved) })
			if err != nil {
				return nil, wrong(x.arg, "can't be written: %s", err)
			}
			if s != "" {
				query = append(append(query, '&'), s...)
			}
		case "header":
			s := simple(v, x.explode, func(s string) string { return s })
			if strings.ContainsFunc(s, func(r rune) bool { return isControl(r) && r != '\t' }) {
				return nil, wrong(x.arg, "contains characters that a header can't have")
			}
			r.Header.Set(x.name, s)
		case "cookie":
			cookies = append(cookies, x.name+"="+simple(v, false, func(s string) string { return escape(s, false) }))
		}
	}
	if strings.ContainsAny(path, "{}") {
		return nil, fault.Invalidf("The path %.200q of the operation has a part that isn't one of its parameters.", p.Path)
	}
	if len(cookies) > 0 {
		r.Header.Set("Cookie", strings.Join(cookies, "; "))
	}
	if err := p.setBody(r, in, o); err != nil {
		return nil, err
	}
	if r.Header.Get("Accept") == "" {
		r.Header.Set("Accept", p.accept)
	}
	if r.URL, err = address(o.Server, path, query); err != nil {
		return nil, err
	}
	return r, nil
}

// address joins the parts. Parsing it must give back the same host and path, or a part has changed its meaning.
// query has only escaped texts, each behind an &.
func address(server, path string, query []byte) (string, error) {
	base, err := url.Parse(server)
	if err != nil || base.Host == "" {
		return "", fault.Invalidf("The server address isn't valid.")
	}
	out := strings.TrimSuffix(server, "/") + literal(path)
	u, err := url.Parse(out)
	if err != nil || u.Host != base.Host || u.Scheme != base.Scheme || u.User != nil || u.Fragment != "" ||
		strings.Count(u.EscapedPath(), "/") != strings.Count(strings.TrimSuffix(base.EscapedPath(), "/")+path, "/") || hasDotSegment(u.EscapedPath()) {
		return "", fault.Invalidf("The parameters don't fit into the address of the operation.")
	}
	if len(query) > 0 {
		out += "?" + string(query[1:])
	}
	return out, nil
}

// literal percent-encodes what a template may contain but a path may not.
func literal(path string) string {
	plain := func(c byte) bool { return c > 0x20 && c < 0x7f && strings.IndexByte(`"<>\^`+"`{|}", c) < 0 }
	i := 0
	for i < len(path) && plain(path[i]) {
		i++
	}
	if i == len(path) {
		return path
	}
	var b strings.Builder
	b.WriteString(path[:i])
	for ; i < len(path); i++ {
		if c := path[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String()
}

// braces keeps a value from looking like a parameter of the template.
var braces = strings.NewReplacer("{", "%7B", "}", "%7D")

// inPath replaces the parameter in a path.
func (x *parameter) inPath(path string, v any) (string, error) {
	mark := "{" + x.name + "}"
	enc := func(s string) string { return escape(s, false) }
	var s string
	switch x.style {
	case "label":
		s = label(v, x.explode, enc)
	case "matrix":
		s = matrix(x.name, v, x.explode, enc)
	default:
		s = simple(v, x.explode, enc)
	}
	if s == "" {
		return "", wrong(x.arg, "must not be empty")
	}
	out := strings.ReplaceAll(path, mark, braces.Replace(s))
	if hasDotSegment(out) {
		return "", wrong(x.arg, "can't be a segment of dots")
	}
	return out, nil
}

// accepts returns the media types of the successful responses.
func (p *Plan) accepts() string {
	var kinds []string
	for code, r := range p.responses {
		if !strings.HasPrefix(code, "2") && code != "default" {
			continue
		}
		m, err := p.d.follow(r)
		if err != nil {
			continue
		}
		for kind := range object(m["content"]) {
			if base, _, err := mime.ParseMediaType(kind); err == nil && !slices.Contains(kinds, base) {
				kinds = append(kinds, base)
			}
		}
	}
	slices.SortFunc(kinds, func(a, b string) int {
		if x, y := isJSON(a), isJSON(b); x != y {
			if x {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	if len(kinds) == 0 || len(kinds) > 8 {
		return "application/json, */*;q=0.5"
	}
	return strings.Join(kinds, ", ")
}

func (p *Plan) setBody(r *Request, in map[string]any, o BuildOptions) error {
	v, given := in["body"]
	if p.body == nil || !given {
		if p.body != nil && p.body.required {
			return wrong("body", "is required")
		}
		return nil
	}
	m := p.body.media[0]
	if kind, ok := in["contentType"].(string); ok && len(p.body.media) > 1 {
		i := slices.IndexFunc(p.body.media, func(m media) bool { return m.kind == kind })
		if i < 0 {
			return wrong("contentType", "isn't one of the media types of the operation")
		}
		m = p.body.media[i]
	}
	kind, _, _ := mime.ParseMediaType(m.kind)
	contentType := m.kind
	var err error
	switch preference(kind) {
	case 1:
		r.Body, err = jcs.Marshal(v)
	case 2:
		r.Body, err = p.formBody(m, v)
	case 3:
		r.Body, contentType, err = p.multipart(m, v, o)
	case 4:
		s, ok := v.(string)
		if !ok {
			return wrong("body", "must be text")
		}
		r.Body = []byte(s)
		if strings.Contains(kind, "*") {
			contentType = "text/plain"
		}
	default:
		var f file
		if f, err = readFile(v, o); err == nil {
			r.Body = f.content
		}
		if strings.Contains(kind, "*") {
			contentType = cmp.Or(f.kind, "application/octet-stream")
		}
	}
	if err != nil {
		return err
	}
	if len(r.Body) > MaxBody {
		return fault.Limitf("The body of the request is larger than %d MiB.", MaxBody>>20)
	}
	if strings.ContainsFunc(contentType, isControl) {
		return wrong("body/contentType", "contains characters that a header can't have")
	}
	r.Header.Set("Content-Type", contentType)
	return nil
}

func (p *Plan) formBody(m media, v any) ([]byte, error) {
	fields := object(v)
	if fields == nil {
		return nil, wrong("body", "must be an object")
	}
	list, _ := pairs(fields)
	var out []string
	for _, f := range list {
		e := object(m.encoding[f.name])
		style, explode := "form", true
		if s := text(e["style"]); s != "" {
			style, explode = s, s == "form"
		}
		if x, ok := e["explode"].(bool); ok {
			explode = x
		}
		value := fields[f.name]
		if isJSON(text(e["contentType"])) && e["style"] == nil && e["explode"] == nil && e["allowReserved"] == nil { // these have precedence
			raw, err := jcs.Marshal(value)
			if err != nil {
				return nil, err
			}
			value = string(raw)
		}
		s, err := form(style, f.name, value, explode, func(s string) string { return escape(s, truth(e["allowReserved"])) })
		if err != nil {
			return nil, wrong("body/"+f.name, "can't be written: %s", err)
		}
		if s != "" {
			out = append(out, s)
		}
	}
	return []byte(strings.Join(out, "&")), nil
}

// file is a file in an input.
type file struct {
	name, kind string
	content    []byte
}

func readFile(v any, o BuildOptions) (file, error) {
	if s, ok := v.(string); ok {
		return file{content: []byte(s)}, nil
	}
	m := object(v)
	sum, ok := m["blob"].(string)
	if !ok || o.Blob == nil {
		return file{}, wrong("body", "must be text or a stored file")
	}
	content, err := o.Blob(sum)
	return file{text(m["filename"]), text(m["contentType"]), content}, err
}

var quoteEscaper = strings.NewReplacer(`\`, `\\`, `"`, "%22", "\r", "%0D", "\n", "%0A")

func (p *Plan) multipart(m media, v any, o BuildOptions) (out []byte, contentType string, err error) {
	fields := object(v)
	if fields == nil {
		return nil, "", wrong("body", "must be an object")
	}
	s, _ := p.d.follow(m.schema)
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	list, _ := pairs(fields)
	for _, f := range list {
		prop, _ := p.d.follow(object(s["properties"])[f.name])
		values, isList := fields[f.name].([]any)
		if !isList {
			values = []any{fields[f.name]}
		} else {
			prop, _ = p.d.follow(prop["items"])
		}
		for _, x := range values {
			if err := p.part(w, f.name, x, isFile(prop), text(object(m.encoding[f.name])["contentType"]), o); err != nil {
				return nil, "", err
			}
		}
		if b.Len() > MaxBody {
			return nil, "", fault.Limitf("The body of the request is larger than %d MiB.", MaxBody>>20)
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return b.Bytes(), w.FormDataContentType(), nil
}

func (p *Plan) part(w *multipart.Writer, name string, v any, isFile bool, kind string, o BuildOptions) error {
	h := textproto.MIMEHeader{}
	disposition := `form-data; name="` + quoteEscaper.Replace(name) + `"`
	var content []byte
	if isFile {
		f, err := readFile(v, o)
		if err != nil {
			return err
		}
		if f.name == "" {
			f.name = name
		}
		disposition += `; filename="` + quoteEscaper.Replace(f.name) + `"`
		content = f.content
		if kind == "" || strings.ContainsAny(kind, ",*") {
			kind = f.kind
		}
		if kind == "" {
			kind = "application/octet-stream"
		}
	} else if s, ok := scalar(v); ok {
		content = []byte(s)
	} else {
		raw, err := jcs.Marshal(v)
		if err != nil {
			return wrong("body/"+name, "can't be written as JSON")
		}
		content, kind = raw, "application/json"
	}
	if strings.ContainsFunc(kind+disposition, isControl) {
		return wrong("body/"+name, "contains characters that a header can't have")
	}
	h.Set("Content-Disposition", disposition)
	if kind != "" {
		h.Set("Content-Type", kind)
	}
	part, err := w.CreatePart(h)
	if err != nil {
		return err
	}
	_, err = part.Write(content)
	return err
}
