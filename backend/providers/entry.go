package providers

import (
	"cmp"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"helix/backend/fault"
)

// Entry is a service in the registry, without its key.
type Entry struct {
	// Type is openai, openai_responses, anthropic, gemini or scripted.
	Type string `json:"type"`
	// BaseURL is the address of the service; empty for the type's own service. For scripted it is the
	// file of the script.
	BaseURL string `json:"baseUrl,omitempty"`
	// APIKeyEnv names the environment variable that holds the key.
	APIKeyEnv    string            `json:"apiKeyEnv,omitempty"`
	ExtraHeaders map[string]string `json:"extraHeaders,omitempty"`
	// CatalogProvider is the catalog's provider of these models, if it is not the entry's own name.
	CatalogProvider string `json:"catalogProvider,omitempty"`
	Organization    string `json:"organization,omitempty"`
	// TimeoutIdleMs is the longest time without data; 60,000 by default.
	TimeoutIdleMs int `json:"timeoutIdleMs,omitempty"`
	// MaxConcurrent is the number of concurrent calls; 4 by default.
	MaxConcurrent int `json:"maxConcurrent,omitempty"`
	// RPM limits the calls per minute; 0: no limit.
	RPM int `json:"rpm,omitempty"`
	// TPM limits the tokens per minute, of prompts and answers together; 0: no limit.
	TPM                   int  `json:"tpm,omitempty"`
	SkipCatalogValidation bool `json:"skipCatalogValidation,omitempty"`
	GenericKey            bool `json:"genericKey,omitempty"`
	// AllowPrivateNetwork allows calls of this entry to reach a private address, even without https.
	AllowPrivateNetwork bool              `json:"allowPrivateNetwork,omitempty"`
	Quirks              map[string]string `json:"quirks,omitempty"`
	Disabled            bool              `json:"disabled,omitempty"`
}

var entryName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

// defaults are the services that defined the wires, and the environment variables of their keys.
var defaults = map[string]struct {
	base string
	env  []string
}{
	WireChat:      {"https://api.openai.com/v1", []string{"OPENAI_API_KEY"}},
	WireResponses: {"https://api.openai.com/v1", []string{"OPENAI_API_KEY"}},
	WireAnthropic: {"https://api.anthropic.com", []string{"ANTHROPIC_API_KEY"}},
	WireGemini:    {"https://generativelanguage.googleapis.com", []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}},
	WireScripted:  {},
}

// shipped returns the entries of a new installation.
func shipped() map[string]Entry {
	return map[string]Entry{"openai": {Type: WireChat}, "anthropic": {Type: WireAnthropic}, "gemini": {Type: WireGemini, CatalogProvider: "google"}}
}

// check normalizes and validates an entry.
func (e *Entry) check() error {
	switch e.Type {
	case "openai_chat", "openai_compatible":
		e.Type = WireChat
	}
	if _, ok := defaults[e.Type]; !ok {
		return fault.InvalidField("entry.type", fault.CodeUnknownValue, "A provider's type is openai, openai_responses, anthropic, gemini or scripted.")
	}
	if e.APIKeyEnv != "" && !envName.MatchString(e.APIKeyEnv) {
		return fault.InvalidField("entry.apiKeyEnv", fault.CodeSyntax, "That is not the name of a variable.")
	}
	if e.MaxConcurrent < 0 || e.MaxConcurrent > 64 || e.RPM < 0 || e.TPM < 0 || e.TimeoutIdleMs < 0 || e.TimeoutIdleMs > 600_000 {
		return fault.InvalidField("entry", fault.CodeRange, "A provider has at most 64 calls at once and a silence of at most 600,000 ms.")
	}
	for k, v := range e.ExtraHeaders {
		if keyHeader(k) || strings.ContainsAny(k+v, "\r\n") {
			return fault.InvalidField("entry.extraHeaders", fault.CodeInvalid, "Header %s can't be set here. Keys are stored as secrets.", k)
		}
	}
	if e.Type == WireScripted {
		if e.BaseURL == "" {
			return fault.InvalidField("entry.baseUrl", fault.CodeMissing, "A scripted provider names the file of its script.")
		}
		return nil
	}
	e.BaseURL = strings.TrimSpace(e.BaseURL)
	if e.BaseURL == "" {
		return nil
	}
	u, err := url.Parse(e.BaseURL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "https" && u.Scheme != "http" {
		return fault.InvalidField("entry.baseUrl", fault.CodeSyntax, "That is not a base URL.")
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) && !e.AllowPrivateNetwork {
		return fault.InvalidField("entry.baseUrl", fault.CodeInvalid, "An address outside this computer needs https, unless the entry allows your private network.")
	}
	return nil
}

func keyHeader(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Cookie", "Proxy-Authorization":
		return true
	}
	return false
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

// base returns the base URL without the part that the wire adds.
func (e Entry) base() string {
	b := strings.TrimRight(cmp.Or(e.BaseURL, defaults[e.Type].base), "/")
	for _, suffix := range []string{"/chat/completions", "/responses", "/v1/messages", "/messages"} {
		b = strings.TrimSuffix(b, suffix)
	}
	switch e.Type {
	case WireAnthropic:
		b = strings.TrimSuffix(b, "/v1")
	case WireGemini:
		b = strings.TrimSuffix(b, "/v1beta")
	case WireChat, WireResponses:
		if _, rest, _ := strings.Cut(b, "://"); rest == hostOf(b) {
			b += "/v1"
		}
	}
	return b
}

// hostOf returns the host and port of an address that check has accepted, without parsing it again
// for every call.
func hostOf(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[:i]
	}
	return rest
}

func (e Entry) host() string { return hostOf(cmp.Or(e.BaseURL, defaults[e.Type].base)) }

// local reports whether the service runs on this computer.
func (e Entry) local() bool {
	host := e.host()
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return e.Type == WireScripted || loopback(strings.Trim(host, "[]"))
}

// official reports whether the service is the one that defined the wire.
func (e Entry) official() bool {
	host := e.host()
	return host == hostOf(defaults[e.Type].base) || e.Type != WireAnthropic && e.Type != WireGemini && strings.HasSuffix(host, ".openai.azure.com")
}

func (e Entry) endpoint(model string, stream bool) string {
	switch e.Type {
	case WireResponses:
		return e.base() + "/responses"
	case WireAnthropic:
		return e.base() + "/v1/messages"
	case WireGemini:
		method := ":generateContent"
		if stream {
			method = ":streamGenerateContent?alt=sse"
		}
		return e.base() + "/v1beta/models/" + url.PathEscape(model) + method
	}
	return e.base() + "/chat/completions"
}

func (e Entry) modelsEndpoint() string {
	switch e.Type {
	case WireAnthropic:
		return e.base() + "/v1/models?limit=1000"
	case WireGemini:
		return e.base() + "/v1beta/models?pageSize=1000"
	}
	return e.base() + "/models"
}

// header returns the headers of a request and the names of those that carry the key.
func (e Entry) header(key string) (h http.Header, sensitive []string) {
	h = http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream, application/json"}}
	for k, v := range e.ExtraHeaders {
		h.Set(k, v)
	}
	switch e.Type {
	case WireAnthropic:
		h.Set("Anthropic-Version", "2023-06-01")
		sensitive = []string{"X-Api-Key"}
		if key != "" {
			h.Set("X-Api-Key", key)
		}
	case WireGemini:
		sensitive = []string{"X-Goog-Api-Key"}
		if key != "" {
			h.Set("X-Goog-Api-Key", key)
		}
	default:
		if e.Organization != "" {
			h.Set("OpenAI-Organization", e.Organization)
		}
		if key != "" {
			h.Set("Authorization", "Bearer "+key)
		}
	}
	return h, sensitive
}
