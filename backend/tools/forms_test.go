package tools

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/storage"
)

// TestSecretsAreReplacedInEveryForm checks that a response that repeats a secret in its address, in
// JSON or in base64 does not reveal it to the tool.
func TestSecretsAreReplacedInEveryForm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const value = `p+q/r="s" t&u`
	e := &execution{s: b.Service, id: storage.NewID(), user: identity.UserID(b.ctx), tool: &Tool{}}
	h := newHost(e)
	t.Cleanup(h.close)
	l := &runSecret{name: "KEY", placeholder: placeholderPrefix + "0"}
	h.mu.Lock()
	h.know(l, value)
	h.secrets["KEY"] = l
	h.mu.Unlock()
	quoted, err := json.Marshal(map[string]string{"a": value})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"as it is": "x " + value, "query": "https://h/?k=" + url.QueryEscape(value), "path": "https://h/" + url.PathEscape(value),
		"JSON": string(quoted), "JSON of the host": string(lifecycle.Text(value)), "base64": "Basic " + base64.StdEncoding.EncodeToString([]byte(value)),
	} {
		got := h.scrub(text)
		if !strings.Contains(got, "[secret KEY]") || strings.Contains(got, "p+q") || strings.Contains(got, "p%2Bq") {
			t.Errorf("%s: %q became %q", name, text, got)
		}
	}
}
