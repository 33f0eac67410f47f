package openapi

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/safehttp"
)

func parse(t *testing.T, text string) *Document {
	t.Helper()
	d, err := Parse([]byte(text), "https://example.com/api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// one returns the plan of the only operation of a description with these members.
func one(t *testing.T, path, method, members string) *Plan {
	t.Helper()
	d := parse(t, `{"openapi":"3.0.3","info":{"title":"T","version":"1"},"servers":[{"url":"https://api.example.com/v1"}],"paths":{"`+path+`":{"`+method+`":{`+members+`}}}}`)
	if len(d.Skipped) > 0 {
		t.Fatal(d.Skipped)
	}
	p, err := d.Plan(method + " " + path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func build(t *testing.T, p *Plan, input string) *Request {
	t.Helper()
	if list, err := p.Check(t.Context(), json.RawMessage(input)); err != nil || len(list) > 0 {
		t.Fatalf("%s: %v %v", input, list, err)
	}
	r, err := p.Build(json.RawMessage(input), BuildOptions{Server: "https://api.example.com/v1"})
	if err != nil {
		t.Fatalf("%s: %v", input, err)
	}
	return r
}

// The table of styles in the OpenAPI standard, with the members of objects in the order of their names.
func TestParametersAreWrittenInEveryStyle(t *testing.T) {
	t.Parallel()
	const none, text, list, obj = `""`, `"blue"`, `["blue","black","brown"]`, `{"B":150,"G":200,"R":100}`
	for _, c := range []struct {
		in, style     string
		explode       bool
		value, expect string
	}{
		{"path", "matrix", false, none, ";color"}, {"path", "matrix", false, text, ";color=blue"},
		{"path", "matrix", false, list, ";color=blue,black,brown"}, {"path", "matrix", false, obj, ";color=B,150,G,200,R,100"},
		{"path", "matrix", true, list, ";color=blue;color=black;color=brown"}, {"path", "matrix", true, obj, ";B=150;G=200;R=100"},
		{"path", "label", false, none, "."}, {"path", "label", false, text, ".blue"},
		{"path", "label", false, list, ".blue,black,brown"}, {"path", "label", false, obj, ".B,150,G,200,R,100"},
		{"path", "label", true, list, ".blue.black.brown"}, {"path", "label", true, obj, ".B=150.G=200.R=100"},
		{"path", "simple", false, text, "blue"}, {"path", "simple", false, list, "blue,black,brown"},
		{"path", "simple", false, obj, "B,150,G,200,R,100"}, {"path", "simple", true, obj, "B=150,G=200,R=100"},
		{"query", "form", true, none, "color="}, {"query", "form", true, text, "color=blue"},
		{"query", "form", false, list, "color=blue,black,brown"}, {"query", "form", false, obj, "color=B,150,G,200,R,100"},
		{"query", "form", true, list, "color=blue&color=black&color=brown"}, {"query", "form", true, obj, "B=150&G=200&R=100"},
		{"query", "spaceDelimited", false, list, "color=blue%20black%20brown"}, {"query", "spaceDelimited", false, obj, "color=B%20150%20G%20200%20R%20100"},
		{"query", "pipeDelimited", false, list, "color=blue%7Cblack%7Cbrown"}, {"query", "pipeDelimited", false, obj, "color=B%7C150%7CG%7C200%7CR%7C100"},
		{"query", "deepObject", true, obj, "color%5BB%5D=150&color%5BG%5D=200&color%5BR%5D=100"},
		{"header", "simple", false, list, "blue,black,brown"}, {"header", "simple", true, obj, "B=150,G=200,R=100"},
		{"cookie", "form", false, text, "color=blue"},
	} {
		path := "/x"
		if c.in == "path" {
			path = "/x{color}"
			if c.style == "simple" {
				path = "/x/{color}"
			}
		}
		explode := "false"
		if c.explode {
			explode = "true"
		}
		p := one(t, path, "get", `"parameters":[{"name":"color","in":"`+c.in+`","required":true,"style":"`+c.style+`","explode":`+explode+`,"schema":{}}]`)
		r := build(t, p, `{"color":`+c.value+`}`)
		got := strings.TrimPrefix(strings.TrimPrefix(r.URL, "https://api.example.com/v1/x"), "/")
		switch c.in {
		case "query":
			got = strings.TrimPrefix(got, "?")
		case "header":
			got = r.Header.Get("Color")
		case "cookie":
			got = r.Header.Get("Cookie")
		}
		if got != c.expect {
			t.Errorf("%s %s explode=%v %s: got %q, want %q", c.in, c.style, c.explode, c.value, got, c.expect)
		}
	}
}

func TestValuesDoNotChangeTheAddress(t *testing.T) {
	t.Parallel()
	p := one(t, "/files/{name}/raw", "get", `"parameters":[{"name":"name","in":"path","required":true,"schema":{"type":"string"}},{"name":"q","in":"query","allowReserved":true,"schema":{"type":"string"}}]`)
	for value, path := range map[string]string{
		"a/b":            "/v1/files/a%2Fb/raw",
		"../../admin":    "/v1/files/..%2F..%2Fadmin/raw",
		"%2e%2e%2fadmin": "/v1/files/%252e%252e%252fadmin/raw",
		"x?admin=1#y":    "/v1/files/x%3Fadmin%3D1%23y/raw",
		"@evil.com":      "/v1/files/%40evil.com/raw",
		`\\evil`:         "/v1/files/%5C%5Cevil/raw",
		"a\r\nHost: b":   "/v1/files/a%0D%0AHost%3A%20b/raw",
		"{q}":            "/v1/files/%7Bq%7D/raw",
		"ü\x00":          "/v1/files/%C3%BC%00/raw",
	} {
		in, _ := json.Marshal(map[string]any{"name": value, "q": value})
		r := build(t, p, string(in))
		u, err := url.Parse(r.URL)
		if err != nil || u.Host != "api.example.com" || u.EscapedPath() != path || len(u.Query()) != 1 || u.Query().Get("q") != value || u.Fragment != "" {
			t.Errorf("%q: %s, %v", value, r.URL, err)
		}
	}
	for _, value := range []string{"", ".", ".."} {
		in, _ := json.Marshal(map[string]any{"name": value})
		if r, err := p.Build(in, BuildOptions{Server: "https://api.example.com/v1"}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %+v, %v", value, r, err)
		}
	}
}

func TestHeadersRefuseLineBreaks(t *testing.T) {
	t.Parallel()
	p := one(t, "/x", "get", `"parameters":[{"name":"X-Trace","in":"header","schema":{"type":"string"}},{"name":"Authorization","in":"header","schema":{"type":"string"}},{"name":"Host","in":"header","schema":{"type":"string"}}]`)
	if r, err := p.Build(json.RawMessage(`{"X-Trace":"a\r\nAuthorization: b"}`), BuildOptions{Server: "https://a.com"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("%+v, %v", r, err)
	}
	if bytes.Contains(p.Input, []byte("Authorization")) || bytes.Contains(p.Input, []byte("Host")) {
		t.Errorf("a parameter may set a header that is not its own: %s", p.Input)
	}
}

func TestBodiesAreWrittenInEveryMediaType(t *testing.T) {
	t.Parallel()
	const schema = `"schema":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"id":{"type":"integer","readOnly":true},"tags":{"type":"array","items":{"type":"string"}},"photo":{"type":"string","format":"binary"}}}`
	p := one(t, "/x", "post", `"requestBody":{"required":true,"content":{"multipart/form-data":{`+schema+`},"application/json":{`+schema+`},"application/x-www-form-urlencoded":{`+schema+`}}}`)
	r := build(t, p, `{"body":{"name":"a&b","tags":["x","y"]}}`)
	if r.Header.Get("Content-Type") != "application/json" || string(r.Body) != `{"name":"a&b","tags":["x","y"]}` {
		t.Errorf("%s %s", r.Header, r.Body)
	}
	r = build(t, p, `{"contentType":"application/x-www-form-urlencoded","body":{"name":"a&b","tags":["x","y"]}}`)
	if string(r.Body) != "name=a%26b&tags=x&tags=y" {
		t.Errorf("%s", r.Body)
	}
	sum := strings.Repeat("ab", 32)
	r, err := p.Build(json.RawMessage(`{"contentType":"multipart/form-data","body":{"name":"n","tags":["x","y"],"photo":{"blob":"`+sum+`","filename":"a\"\r\nb.png"}}}`), BuildOptions{Server: "https://a.com", Blob: func(s string) ([]byte, error) {
		if s != sum {
			t.Errorf("asked for %s", s)
		}
		return []byte("PNG"), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	m := multipart.NewReader(bytes.NewReader(r.Body), params["boundary"])
	var got []string
	for {
		part, err := m.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(part)
		got = append(got, part.FormName()+" "+part.FileName()+" "+string(b))
	}
	if strings.Join(got, "|") != `name  n|photo a%22%0D%0Ab.png PNG|tags  x|tags  y` {
		t.Errorf("%q", got)
	}
	for _, input := range []string{`{}`, `{"body":{}}`, `{"body":{"name":"a","id":1}}`, `{"body":{"name":1}}`, `{"body":{"name":"a"},"other":1}`} {
		if list, err := p.Check(t.Context(), json.RawMessage(input)); err != nil || len(list) == 0 {
			t.Errorf("%s was accepted: %v", input, err)
		}
	}
}

func TestSwaggerIsReadLikeOpenAPI(t *testing.T) {
	t.Parallel()
	d := parse(t, `
swagger: "2.0"
info: {title: Pets, version: "1.0"}
host: pets.example.com
basePath: /v2
schemes: [http, https]
consumes: [application/json]
securityDefinitions:
  key: {type: apiKey, in: header, name: X-Key}
  login: {type: basic}
parameters:
  limit: {name: limit, in: query, type: integer, maximum: 100}
definitions:
  Pet: {type: object, required: [name], properties: {name: {type: string}, parent: {$ref: '#/definitions/Pet'}}}
paths:
  /pets:
    get:
      security: [{key: []}]
      parameters:
        - $ref: '#/parameters/limit'
        - {name: tags, in: query, type: array, items: {type: string}, collectionFormat: pipes}
      responses: {200: {description: ok, schema: {type: array, items: {$ref: '#/definitions/Pet'}}}}
    post:
      operationId: addPet
      parameters: [{name: pet, in: body, required: true, schema: {$ref: '#/definitions/Pet'}}]
      responses: {201: {description: ok}}
  /pets/{id}/photo:
    post:
      consumes: [multipart/form-data]
      parameters: [{name: id, in: path, required: true, type: string}, {name: photo, in: formData, type: file, required: true}]
      responses: {}
`)
	if len(d.Operations) != 3 || len(d.Skipped) != 0 || d.Servers[0].URL != "https://pets.example.com/v2" {
		t.Fatalf("%+v %+v %+v", d.Operations, d.Skipped, d.Servers)
	}
	p, err := d.Plan("get /pets")
	if err != nil {
		t.Fatal(err)
	}
	if r := build(t, p, `{"limit":5,"tags":["a","b"]}`); r.URL != "https://api.example.com/v1/pets?limit=5&tags=a%7Cb" {
		t.Error(r.URL)
	}
	if list, _ := p.Check(t.Context(), json.RawMessage(`{"limit":101}`)); len(list) == 0 {
		t.Error("the maximum is not checked")
	}
	if p, err = d.Plan("post /pets"); err != nil {
		t.Fatal(err)
	}
	if list, err := p.Check(t.Context(), json.RawMessage(`{"body":{"name":"a","parent":{"name":"b","parent":{"name":1}}}}`)); err != nil || len(list) == 0 {
		t.Errorf("a recursive schema is not checked: %v", err)
	}
	if !strings.Contains(string(p.Input), "(recursive: Pet)") || strings.Contains(string(p.Input), "$ref") {
		t.Errorf("%s", p.Input)
	}
	if p, err = d.Plan("post /pets/{id}/photo"); err != nil {
		t.Fatal(err)
	}
	if r := build(t, p, `{"id":"1","body":{"photo":"PNG"}}`); !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data; ") || !bytes.Contains(r.Body, []byte("PNG")) {
		t.Errorf("%s %s", r.Header, r.Body)
	}
}

func TestSchemasOf30BecomeJSONSchema(t *testing.T) {
	t.Parallel()
	p := one(t, "/x", "post", `"requestBody":{"content":{"application/json":{"schema":{"type":"object","required":["a","a"],"properties":{"a":{"type":"integer","nullable":true,"minimum":0,"exclusiveMinimum":true},"b":{"type":"strange","pattern":"(?=x)"},"c":{"type":"string","enum":["x"],"nullable":true}}}}}}`)
	for input, ok := range map[string]bool{
		`{"body":{"a":null}}`: true, `{"body":{"a":1}}`: true, `{"body":{"a":0}}`: false, `{"body":{"a":1,"b":"y"}}`: true, `{"body":{"a":1,"c":null}}`: true, `{"body":{"a":1,"c":"y"}}`: false,
	} {
		if list, err := p.Check(t.Context(), json.RawMessage(input)); err != nil || (len(list) == 0) != ok {
			t.Errorf("%s: %v %v", input, list, err)
		}
	}
	if n := p.Notes(); len(n) != 1 || !strings.Contains(n[0], "patterns") {
		t.Errorf("%v", n)
	}
}

func TestBrokenPartsAreSkipped(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"openapi":"3.1.0","info":{},"components":{"securitySchemes":{"tls":{"type":"mutualTLS"},"id":{"type":"openIdConnect"}}},"paths":{
		"/good":{"get":{"parameters":[{"$ref":"#/components/none"}]},"put":{"requestBody":{"content":{"application/json":{"schema":{"$ref":"https://evil.example/x.json"}}}}},"post":{}},
		"/file":{"$ref":"other.yaml#/x"},"/a/../b":{"get":{}},"/q?x=1":{"get":{}},"no":{"get":{}},
		"/tls":{"get":{"security":[{"tls":[]}]},"post":{"security":[{"tls":[]},{}]}},
		"/loop":{"parameters":[{"$ref":"#/paths/~1loop/parameters/0"}],"get":{}}}}`)
	var have []string
	for _, o := range d.Operations {
		have = append(have, o.Key)
	}
	if strings.Join(have, ", ") != "post /good, put /good, post /tls" || len(d.Skipped) != 7 {
		t.Errorf("%v, skipped %v", have, d.Skipped)
	}
	p, err := d.Plan("put /good")
	if err != nil || len(p.Notes()) != 1 || !strings.Contains(p.Notes()[0], "leads out") {
		t.Errorf("%v %v", p, err)
	}
}

func TestNamesAreStableAndUnique(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long-", 20)
	list := []Operation{{ID: "list", Method: "GET", Path: "/a"}, {ID: "list", Method: "GET", Path: "/b"}, {ID: long, Method: "GET", Path: "/c"}, {Key: "get /d/{id}", Method: "GET", Path: "/d/{id}"}, {ID: "only one", Method: "GET", Path: "/e"}}
	names := Names("my-tool", list)
	seen := map[string]bool{}
	for _, n := range names {
		if seen[n] || len(n) > MaxName || strings.Trim(n, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
			t.Errorf("%q in %q", n, names)
		}
		seen[n] = true
	}
	if names[4] != "my_tool_only_one" || names[3] != "my_tool_get_d_id" || names[0] == "my_tool_list" {
		t.Errorf("%q", names)
	}
	turned := Names("my-tool", []Operation{list[4], list[2], list[1], list[0], list[3]})
	for i, j := range []int{4, 2, 1, 0, 3} {
		if turned[i] != names[j] {
			t.Errorf("%q became %q in another order", names[j], turned[i])
		}
	}
}

func TestEffectsFollowTheMethodAndAreOnlyRaised(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path, summary, hint string
		want                        Effects
	}{
		{"get", "/x", "delete nothing", "", Effects{ReadOnly: true, Idempotent: true}},
		{"delete", "/x", "", "readOnly", Effects{Idempotent: true, Destructive: true}},
		{"put", "/x", "", "", Effects{Idempotent: true}},
		{"post", "/payments", "", "", Effects{Destructive: true}},
		{"post", "/x", "Send a message", "", Effects{Destructive: true}},
		{"post", "/sender", "", "", Effects{}},
		{"get", "/x", "", "privileged", Effects{Idempotent: true, Privileged: true}},
	} {
		if got := effects(c.method, c.path, c.summary, c.hint); got != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

func TestDescriptionsAreReadWithinLimits(t *testing.T) {
	t.Parallel()
	bomb := "openapi: 3.0.0\na: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'i'; c++ {
		p := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+p+",", 10), ",") + "]\n"
	}
	for name, c := range map[string]struct {
		text string
		kind fault.Kind
	}{
		"aliases":     {bomb, fault.Limit},
		"deep":        {`{"openapi":"3.0.0","x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, fault.Invalid},
		"deep YAML":   {"openapi: 3.0.0\nx: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), fault.Invalid},
		"endless":     {"openapi: 3.0.0\nx: &x [*x]\n", fault.Invalid},
		"empty":       {"", fault.Invalid},
		"text":        {"hello", fault.Invalid},
		"no version":  {"{}", fault.Invalid},
		"4.0":         {`{"openapi":"4.0.0"}`, fault.Invalid},
		"broken JSON": {"{\"openapi\":\"3.0.0\",\n  \"x\": }", fault.Invalid},
		"twice":       {"openapi: 3.0.0\nopenapi: 3.1.0", fault.Invalid},
		"tabs":        {"openapi: 3.0.0\n\tx: 1", fault.Invalid},
		"operations":  {`{"openapi":"3.0.0","paths":{` + manyPaths(maxOperations+1) + `}}`, fault.Limit},
		"references":  {`{"openapi":"3.0.0","x":[` + strings.TrimSuffix(strings.Repeat(`{"$ref":"#/x"},`, maxRefs+1), ",") + `]}`, fault.Limit},
	} {
		_, err := Parse([]byte(c.text), "")
		if !fault.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.HasPrefix(name, "broken") && !strings.Contains(err.Error(), "line 2, column 8") {
			t.Error(err)
		}
	}
}

func manyPaths(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"/p` + strings.Repeat("x", i%7) + "/" + string(rune('a'+i%26)) + "/" + json.Number(strings.Repeat("1", 1+i%3)).String() + "/" + itoa(i) + `":{"get":{}}`)
	}
	return b.String()
}

func itoa(i int) string { b, _ := json.Marshal(i); return string(b) }

func TestServersAreChecked(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"openapi":"3.0.0","servers":[{"url":"https://{region}.example.com/{base}","variables":{"region":{"default":"eu","enum":["eu","us"]},"base":{"default":"v1"}}},{"url":"../v2"},{"url":"file:///etc"}]}`)
	for _, c := range []struct {
		server int
		vars   map[string]string
		want   string
	}{
		{0, nil, "https://eu.example.com/v1"}, {0, map[string]string{"region": "us", "base": "v2/"}, "https://us.example.com/v2"},
		{0, map[string]string{"region": "evil.com/"}, ""}, {0, map[string]string{"base": "../x"}, ""}, {0, map[string]string{"base": "x?y"}, ""},
		{0, map[string]string{"base": "a@evil.com"}, ""}, {0, map[string]string{"base": "%2e%2e"}, ""},
		{1, nil, "https://example.com/v2"}, {2, nil, ""},
	} {
		got, err := d.ServerURL(d.Servers[c.server], c.vars)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

func TestCredentialsAreAddedLastAndNeverShown(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"openapi":"3.0.0","components":{"securitySchemes":{"h":{"type":"apiKey","in":"header","name":"X-Key"},"q":{"type":"apiKey","in":"query","name":"key"},"c":{"type":"apiKey","in":"cookie","name":"sid"},"b":{"type":"http","scheme":"Bearer"},"u":{"type":"http","scheme":"basic"}}},
		"paths":{"/x":{"get":{"security":[{"h":[],"q":[]},{"b":[]}]},"put":{"security":[{"c":[]}]},"post":{"security":[{"u":[]},{}]},"delete":{}}}}`)
	have := map[string]Credential{}
	send := func(key string) (*Request, error) {
		p, err := d.Plan(key)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Build(json.RawMessage(`{}`), BuildOptions{Server: "https://a.com"})
		if err != nil {
			t.Fatal(err)
		}
		return r, d.Authenticate(r, p.Operation, func(s Scheme) (Credential, bool, error) { c, ok := have[s.Name]; return c, ok, nil })
	}
	if _, err := send("get /x"); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "h or b") {
		t.Error(err)
	}
	if r, err := send("post /x"); err != nil || r.Secrets() {
		t.Errorf("an optional scheme is required: %v", err)
	}
	for _, n := range []string{"q", "b", "c", "u"} {
		have[n] = Credential{User: "me", Value: "s3cret/+"}
	}
	for key, want := range map[string]string{"get /x": "Authorization Bearer s3cret/+", "put /x": "Cookie sid=s3cret%2F%2B", "post /x": "Authorization Basic bWU6czNjcmV0Lys="} {
		r, err := send(key)
		if err != nil {
			t.Fatal(err)
		}
		name, value, _ := strings.Cut(want, " ")
		full := r.HTTP()
		if full.Header.Get(name) != value {
			t.Errorf("%s: %v", key, full.Header)
		}
		h, u := r.Masked()
		if shown, _ := json.Marshal([]any{h, u}); bytes.Contains(shown, []byte("s3cret")) || !bytes.Contains(shown, []byte("•••")) {
			t.Errorf("%s shows %s", key, shown)
		}
	}
	have["h"] = have["q"]
	r, err := send("get /x")
	if err != nil {
		t.Fatal(err)
	}
	if full := r.HTTP(); full.URL != "https://a.com/x?key=s3cret%2F%2B" || full.Header.Get("X-Key") != "s3cret/+" || len(full.Sensitive) != 1 {
		t.Errorf("%+v", full)
	}
	if _, u := r.Masked(); u != "https://a.com/x?key=•••" {
		t.Error(u)
	}
}

func TestKeptPartIsEnoughAndStable(t *testing.T) {
	t.Parallel()
	const text = `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"components":{"schemas":{"A":{"type":"object","properties":{"b":{"$ref":"#/components/schemas/B/properties/x"},"c":{"$ref":"#/components/schemas/B"}}},"B":{"type":"object","properties":{"x":{"type":"integer"},"y":{"$ref":"#/components/schemas/A"}}},"Unused":{}},"parameters":{"p":{"name":"p","in":"query","schema":{"type":"string"}}},"securitySchemes":{"k":{"type":"http","scheme":"bearer"},"other":{"type":"http","scheme":"basic"}}},
		"security":[{"k":[]}],"paths":{"/a":{"parameters":[{"$ref":"#/components/parameters/p"}],"post":{"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/A"}}}}},"get":{}},"/b":{"get":{}}}}`
	d := parse(t, text)
	kept, err := d.Keep([]string{"post /a"})
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"Unused", "other", "/b", `"get"`} {
		if bytes.Contains(kept, []byte(word)) {
			t.Errorf("%s is kept: %s", word, kept)
		}
	}
	again := parse(t, string(kept))
	p1, _ := d.Plan("post /a")
	p2, err := again.Plan("post /a")
	if err != nil || string(p1.Input) != string(p2.Input) || len(p2.Notes()) > 0 || p2.Security[0][0] != "k" {
		t.Errorf("%v: %s\n%s", err, p1.Input, p2.Input)
	}
	if list, err := p2.Check(t.Context(), json.RawMessage(`{"body":{"c":{"y":{"b":"x"}}}}`)); err != nil || len(list) == 0 {
		t.Errorf("the kept schema accepts anything: %v", err)
	}
	if twice, err := again.Keep([]string{"post /a"}); err != nil || string(twice) != string(kept) {
		t.Errorf("keeping again changes it: %v", err)
	}
}

func TestResponsesAreReadInEveryForm(t *testing.T) {
	t.Parallel()
	p := one(t, "/x", "get", `"parameters":[{"name":"page","in":"query","schema":{"type":"integer"}}],"responses":{"200":{"content":{"application/json":{"schema":{"type":"object","required":["id"],"properties":{"id":{"type":"integer"},"secret":{"type":"string","writeOnly":true}}}}}}}`)
	read := func(status int, kind, body string, link string) *Response {
		return p.Read(t.Context(), json.RawMessage(`{"page":2}`), &safehttp.Response{Status: status, Header: http.Header{"Content-Type": {kind}, "Link": {link}, "Set-Cookie": {"a=b"}}, Body: []byte(body)})
	}
	r := read(200, "application/json; charset=utf-8", `{"id":12345678901234567890}`, `<https://a.com/x?page=3>; rel="next", <https://a.com/x?page=9>; rel="last"`)
	if raw, _ := json.Marshal(r.Body); !r.OK || string(raw) != `{"id":12345678901234567890}` || string(r.NextPage) != `{"page":3}` || len(r.Warnings) != 0 || r.Headers["set-cookie"] != "" {
		t.Errorf("%+v %s", r, r.NextPage)
	}
	if r = read(200, "application/json", `{"id":"x"}`, ""); len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "schema_drift") || r.NextPage != nil {
		t.Errorf("%+v", r)
	}
	if r = read(404, "application/json", `{"message":"no"}`, ""); r.OK || len(r.Warnings) != 0 || object(r.Body)["message"] != "no" {
		t.Errorf("%+v", r)
	}
	if r = read(200, "image/png", "\x89PNG\x00", ""); r.File == nil || r.Body != nil || !r.Truncated {
		t.Errorf("%+v", r)
	}
	if r = read(200, "text/plain", strings.Repeat("ü", MaxReturned), ""); r.File == nil || len(r.Body.(string)) > headBytes {
		t.Errorf("%d", len(r.Body.(string)))
	}
	if r = read(200, "application/json", `{"id":`, ""); r.Body != `{"id":` || len(r.Warnings) != 1 {
		t.Errorf("%+v", r)
	}
}

// FuzzParse reads any text: it must end with an error or with operations that can be planned.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"openapi":"3.0.0","paths":{"/a/{b}":{"get":{"parameters":[{"name":"b","in":"path","schema":{"$ref":"#/paths"}}]}}}}`))
	f.Add([]byte("swagger: '2.0'\npaths: {/a: {post: {parameters: [{in: body, schema: {$ref: '#/definitions/A'}}]}}}\ndefinitions: {A: {items: {$ref: '#/definitions/A'}}}"))
	f.Add([]byte("openapi: 3.1.0\nx: &x {<<: *x}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := Parse(raw, "https://a.example/")
		if err != nil {
			return
		}
		for _, o := range d.Operations[:min(len(d.Operations), 20)] {
			p, err := d.Plan(o.Key)
			if err != nil {
				continue
			}
			if len(p.Input) > MaxModelSchema || !json.Valid(p.Input) {
				t.Fatalf("%s", p.Input)
			}
			p.Notes()
			kept, err := d.Keep([]string{o.Key})
			if err != nil {
				t.Fatal(err)
			}
			if again, err := Parse(kept, ""); err != nil || len(again.Operations) != 1 {
				t.Fatalf("kept %s: %v", kept, err)
			}
		}
	})
}

// FuzzBuild passes any values: the host and the number of segments of the address stay.
func FuzzBuild(f *testing.F) {
	for _, s := range []string{"a", "../..", "%2f", "\r\nX: y", "@evil.com/", "{q}", "\x00", "?#"} {
		f.Add(s, s, s)
	}
	d, err := Parse([]byte(`{"openapi":"3.0.0","paths":{"/a/{p}/b{m}":{"post":{"parameters":[{"name":"p","in":"path","schema":{}},{"name":"m","in":"path","style":"matrix","explode":true,"schema":{}},{"name":"q","in":"query","allowReserved":true,"schema":{}},{"name":"o","in":"query","style":"deepObject","schema":{}},{"name":"X-H","in":"header","schema":{}},{"name":"c","in":"cookie","schema":{}}]}}}}`), "")
	if err != nil {
		f.Fatal(err)
	}
	p, err := d.Plan("post /a/{p}/b{m}")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, a, b, key string) {
		in, err := json.Marshal(map[string]any{"p": a, "m": map[string]any{key: b}, "q": b, "o": map[string]any{key: a}, "X-H": a, "c": b})
		if err != nil {
			return
		}
		r, err := p.Build(in, BuildOptions{Server: "https://a.example/v1"})
		if err != nil {
			return
		}
		u, err := url.Parse(r.URL)
		if err != nil || u.Host != "a.example" || strings.Count(u.EscapedPath(), "/") != 4 || !strings.HasPrefix(u.EscapedPath(), "/v1/a/") || u.Fragment != "" || len(strings.Split(u.RawQuery, "&")) != 2 || hasDotSegment(u.EscapedPath()) {
			t.Fatalf("%q %q %q: %s, %v", a, b, key, r.URL, err)
		}
		for k, v := range r.Header {
			if strings.ContainsAny(strings.Join(v, ""), "\r\n\x00") || strings.Contains(k, "\n") {
				t.Fatalf("%q: %q", k, v)
			}
		}
	})
}
