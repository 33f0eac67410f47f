package skills

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"helix/backend/callable"
	"helix/backend/callable/netgate"
	"helix/backend/fault"
	"helix/backend/safehttp"
)

const httpStep = "http.request"

// web is the built-in step http.request.
type web struct {
	client *netgate.Client
	o      *BuiltinOptions
}

func newWeb(o *BuiltinOptions) *web {
	return &web{o: o, client: netgate.NewClient(safehttp.Options{DenyPorts: o.DenyPort, MaxRequest: maxHTTP, MaxBody: maxHTTP, Timeout: maxHTTPTime}, o.HTTP, o.Allow)}
}

const (
	maxHTTP     = 1 << 20 // bytes of a body, as for any output
	maxHTTPTime = 5 * time.Minute
)

func (w *web) builtin() callable.Func {
	return callable.Func{
		Info: callable.Info{
			Name: httpStep, Title: "Sends an HTTP request.", Effects: callable.Effects{OpenWorld: true}, Capabilities: []string{netgate.AnyHost}, Untrusted: true,
			Input: rawJSON(`{"type":"object","additionalProperties":false,"required":["url"],"properties":{
			"url":{"type":"string","minLength":1,"maxLength":8192,"description":"An https address, or http of a port of this computer."},
			"method":{"enum":["GET","HEAD","POST","PUT","PATCH","DELETE","OPTIONS"],"description":"Default: GET."},
			"headers":{"type":"object","additionalProperties":{"type":"string"}},
			"query":{"type":"object","additionalProperties":{"type":["string","number","boolean"]},"description":"Added to the address."},
			"body":{"type":"string","description":"Sent as it is."},
			"json":{"description":"Sent as JSON instead of body."},
			"idempotencyKey":{"type":"boolean","description":"Send the header Idempotency-Key, the same in every attempt. Default: false."},
			"anyStatus":{"type":"boolean","description":"A status of 400 and more is a result, not an error. Default: false."}}}`),
			Output: rawJSON(`{"type":"object","required":["status","ok","url","headers","body"],"properties":{
			"status":{"type":"integer"},"ok":{"type":"boolean"},"url":{"type":"string"},
			"headers":{"type":"object","additionalProperties":{"type":"string"}},
			"body":{"type":["string","null"],"description":"null when it is not text."},
			"json":{"description":"The body, when it is JSON."}}}`),
		},
		Run: callable.Typed(w.run), Rights: w.o.Rights, Records: true,
	}
}

// httpInput is the input of the step.
type httpInput struct {
	URL            string
	Method         string
	Headers        map[string]string
	Query          map[string]any
	Body           *string
	JSON           json.RawMessage
	IdempotencyKey bool
	AnyStatus      bool
}

func (w *web) run(ctx context.Context, c callable.Request, in httpInput) (any, error) {
	r, err := in.request(&c)
	if err != nil {
		return nil, err
	}
	resp, err := w.client.Do(ctx, &c, *r)
	if err != nil {
		return nil, err
	}
	if resp.Status >= 400 && !in.AnyStatus {
		return nil, netgate.StatusError(resp, slices.Contains([]string{"", "GET", "HEAD", "OPTIONS"}, in.Method), w.o.Now())
	}
	return httpOutput(resp), nil
}

func (in *httpInput) request(c *callable.Request) (*safehttp.Request, error) {
	u, err := url.Parse(in.URL)
	if err != nil || u.Host == "" {
		return nil, fault.Invalidf("%.100q is not an address.", in.URL)
	}
	if len(in.Query) > 0 {
		q := u.Query()
		for k, v := range in.Query {
			text, ok := v.(string)
			if !ok {
				b, err := json.Marshal(v)
				if err != nil {
					return nil, fault.Invalidf("The query value %.64q cannot be sent.", k)
				}
				text = string(b)
			}
			q.Set(k, text)
		}
		u.RawQuery = q.Encode()
	}
	r := &safehttp.Request{Method: in.Method, URL: u.String(), Header: http.Header{}, Timeout: c.Timeout}
	for k, v := range in.Headers {
		r.Header.Set(k, v)
	}
	switch {
	case in.Body != nil && in.JSON != nil:
		return nil, fault.Invalidf("Give body or json, not both.")
	case in.JSON != nil:
		r.Body = in.JSON
		if r.Header.Get("Content-Type") == "" {
			r.Header.Set("Content-Type", "application/json")
		}
	case in.Body != nil:
		r.Body = []byte(*in.Body)
	}
	if in.IdempotencyKey {
		r.Header.Set("Idempotency-Key", c.Key)
		r.Sensitive = append(r.Sensitive, "Idempotency-Key")
	}
	return r, nil
}

func httpOutput(resp *safehttp.Response) map[string]any {
	headers := map[string]string{}
	for k, v := range resp.Header {
		headers[strings.ToLower(k)] = strings.Join(v, ", ")
	}
	out := map[string]any{"status": resp.Status, "ok": resp.Status < 400, "url": resp.URL, "headers": headers, "body": nil}
	if utf8.Valid(resp.Body) {
		out["body"] = string(resp.Body)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if (kind == "application/json" || strings.HasSuffix(kind, "+json")) && json.Valid(resp.Body) {
		out["json"] = json.RawMessage(resp.Body)
		out["body"] = nil // not twice, because both count toward the size of outputs
	}
	return out
}
