package sandbox

import (
	"context"
	"encoding/json"
)

// The operations that reach Host.Call. The guest side of helix.* is defined here; the host decides
// what an operation may do and carries it out. Requests and answers are JSON objects of the types
// named below. helix.log, console.*, timers and random numbers never reach the host.
//
//	guest call                          op              request           answer
//	helix.fetch(url, options)           "fetch"         FetchRequest      FetchResponse
//	helix.fs.readText(path)             "fs.readText"   PathRequest       TextResponse
//	helix.fs.list(path)                 "fs.list"       PathRequest       ListResponse
//	helix.fs.writeText(path, text)      "fs.writeText"  WriteRequest      {}
//	helix.state.get(key)                "state.get"     KeyRequest        StateResponse
//	helix.state.set(key, value)         "state.set"     StateSetRequest   {}
//	helix.state.delete(key)             "state.delete"  KeyRequest        DeletedResponse
//	helix.state.keys()                  "state.keys"    {}                KeysResponse
//	helix.secret(name)                  "secret"        NameRequest       SecretResponse
//	helix.tool(name, params)            "tool"          ToolRequest       ToolResponse
//
// Every operation is asynchronous for the guest: it returns a promise, and Host.Call runs
// on a goroutine of its own with a context that ends with the run; only a state.* or secret
// operation that is all the guest is waiting for is called on the run's goroutine, so it must
// return soon after its context has ended. A run has at most 6 fetches, 4 tools and 8 other
// operations in progress; the rest are queued. A run may start Limits.HostCalls operations and 100
// fetches; the next one rejects with a LimitError (code "limit"), which, if uncaught, ends the run
// as host_denied with reason limit.
//
// An error of Host.Call rejects the promise. Denied becomes an Error with name
// PermissionError, code "denied" and the capability of the Refusal in the details; if uncaught, it
// ends the run as host_denied. Any other kind becomes an Error with name HelixError and code = the
// kind (for example "not_found", "limit", "unavailable"); if uncaught, it ends the run as thrown.
// Of an error that is not a *fault.Error the guest learns only that something failed.
const (
	OpFetch       = "fetch"
	OpReadText    = "fs.readText"
	OpList        = "fs.list"
	OpWriteText   = "fs.writeText"
	OpStateGet    = "state.get"
	OpStateSet    = "state.set"
	OpStateDelete = "state.delete"
	OpStateKeys   = "state.keys"
	OpSecret      = "secret"
	OpTool        = "tool"
)

// Host carries out the operations that a run requests. req is JSON of one of the request types of
// this package. It comes from untrusted code, so check everything. A refusal is a *fault.Error of
// Kind Denied whose Details are a Refusal.
type Host interface {
	Call(ctx context.Context, op string, req json.RawMessage) (json.RawMessage, error)
}

// HostFunc is an adapter that lets a function be used as a Host.
type HostFunc func(ctx context.Context, op string, req json.RawMessage) (json.RawMessage, error)

// Call calls f.
func (f HostFunc) Call(ctx context.Context, op string, req json.RawMessage) (json.RawMessage, error) {
	return f(ctx, op, req)
}

// The reasons for a Refusal.
const (
	ReasonCapability = "capability" // the run does not have it
	ReasonLimit      = "limit"      // a count or quota is used up
	ReasonAddress    = "address"    // a network address that may never be reached
	ReasonPath       = "path"       // a file that may never be opened
)

// Refusal is the Details of a Denied error returned by Host.Call, and of the host_denied Error that
// results if the guest does not catch it. Extra, if set, is passed on to the caller (the id of a
// pending approval, for example) and not shown to the guest.
type Refusal struct {
	Reason     string `json:"reason"`
	Capability string `json:"capability,omitempty"` // as a manifest writes it: network:https(api.example.com)
	Resource   string `json:"resource,omitempty"`
	Extra      any    `json:"extra,omitempty"`
}

// FetchRequest asks for one HTTP exchange. Header names are lower case. At most one of
// Body and BodyBase64 is set; the guest passed text for the first and bytes for the second.
type FetchRequest struct {
	URL        string            `json:"url"`
	Method     string            `json:"method"` // upper case; GET if the guest set none
	Headers    map[string]string `json:"headers"`
	Body       *string           `json:"body,omitempty"`
	BodyBase64 *string           `json:"bodyBase64,omitempty"`
	TimeoutMs  int64             `json:"timeoutMs,omitempty"` // 0: the default
}

// FetchResponse answers a FetchRequest. URL is the final one after redirects. Header names are
// lower case, several values of one name joined with ", ". Set BodyBase64 if the body is not valid
// UTF-8, else Body.
type FetchResponse struct {
	Status     int               `json:"status"`
	URL        string            `json:"url"`
	Headers    map[string]string `json:"headers"`
	Body       string            `json:"body,omitempty"`
	BodyBase64 string            `json:"bodyBase64,omitempty"`
}

// PathRequest is a request for a file or folder.
type PathRequest struct {
	Path string `json:"path"`
}

// TextResponse is the content of a file as UTF-8; invalid bytes are replaced by U+FFFD.
type TextResponse struct {
	Text string `json:"text"`
}

// DirEntry is one entry of a folder. Modified is RFC 3339 UTC.
type DirEntry struct {
	Name     string `json:"name"`
	Size     int64  `json:"size"`
	IsDir    bool   `json:"isDir"`
	Modified string `json:"modified"`
}

// ListResponse lists the entries of a folder by name.
type ListResponse struct {
	Entries []DirEntry `json:"entries"`
}

// WriteRequest is a request to write a whole file.
type WriteRequest struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// KeyRequest is a request for one state value.
type KeyRequest struct {
	Key string `json:"key"`
}

// StateResponse is a state value; the guest sees undefined when Found is false.
type StateResponse struct {
	Found bool            `json:"found"`
	Value json.RawMessage `json:"value,omitempty"`
}

// StateSetRequest is a request to store a JSON value.
type StateSetRequest struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// DeletedResponse reports whether the key existed.
type DeletedResponse struct {
	Deleted bool `json:"deleted"`
}

// KeysResponse lists the state keys in order.
type KeysResponse struct {
	Keys []string `json:"keys"`
}

// NameRequest is a request for a secret.
type NameRequest struct {
	Name string `json:"name"`
}

// SecretResponse is the opaque text that stands for the secret during this run. The value itself
// must never be passed to the guest.
type SecretResponse struct {
	Placeholder string `json:"placeholder"`
}

// ToolRequest is a request to run another tool. Use Remaining and Charge so that the inner run gets
// no more than the outer run has left.
type ToolRequest struct {
	Name   string          `json:"name"`
	Params json.RawMessage `json:"params"`
}

// ToolResponse is the output of the inner tool.
type ToolResponse struct {
	Output json.RawMessage `json:"output"`
}
