package providers

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"helix/backend/fault"
)

// TestParams selects what to test.
type TestParams struct {
	Name string `json:"name"`
	// Model is the model to call if Call is set; by default, the chat role's model of this provider.
	Model string `json:"model,omitempty"`
	// Call sends one short message, which costs money.
	Call bool `json:"call,omitempty"`
}

// TestResult holds the steps up to the first failure.
type TestResult struct {
	Steps      []TestStep `json:"steps"`
	CostMicros Micros     `json:"costMicros"`
}

// TestStep is one of key, connect, models and stream.
type TestStep struct {
	Step    string `json:"step"`
	OK      bool   `json:"ok"`
	Ms      int64  `json:"ms"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Kind is the kind of the error.
	Kind fault.Kind `json:"kind,omitempty"`
}

// Test tests a service step by step. It costs nothing unless Call is set.
func (s *Service) Test(ctx context.Context, p TestParams) (TestResult, error) {
	out := TestResult{Steps: []TestStep{}}
	entries, roles, err := s.config(ctx)
	if err != nil {
		return out, err
	}
	e, ok := entries[p.Name]
	if !ok {
		return out, fault.NotFoundf("Provider %q not found.", p.Name)
	}
	began := time.Now()
	step := func(name, good string, err error) bool {
		st := TestStep{Step: name, OK: err == nil, Ms: time.Since(began).Milliseconds(), Message: good}
		if err != nil {
			f := fault.As(err)
			st.Message, st.Kind = f.Message, f.Kind
			if f.Kind == fault.Denied {
				st.Hint = "Enter its key, or another one."
			} else if f.Kind == fault.Unavailable || f.Kind == fault.NotFound {
				st.Hint = "Check the base URL and that the service runs."
			}
		}
		out.Steps = append(out.Steps, st)
		began = time.Now()
		return err == nil
	}
	key, source, err := s.key(ctx, p.Name, e)
	if err == nil && source == "" && !e.local() {
		err = fault.Deniedf("No key for %s.", s.title(p.Name))
	}
	if !step("key", cmp.Or(source, "not needed"), err) {
		return out, nil
	}
	model := p.Model
	if e.Type != WireScripted {
		ids, err := s.served(ctx, target{name: p.Name, title: s.title(p.Name), entry: e, key: key})
		if !step("models", fmt.Sprintf("%d models", len(ids)), err) {
			return out, nil
		}
		if model == "" && len(ids) > 0 && e.local() {
			model = ids[0]
		}
	}
	if !p.Call {
		return out, nil
	}
	for _, ref := range roles[RoleChat].Chain {
		if name, id := ref.Split(); model == "" && name == p.Name {
			model = id
		}
	}
	if model == "" {
		return out, fault.InvalidField("model", fault.CodeMissing, "Name the model that is asked.")
	}
	reply, err := s.Complete(ctx, Request{
		Model: ModelRef(p.Name + "/" + model), MaxOutput: 64, Purpose: "providers.test",
		Messages: []Message{{Role: User, Parts: []Part{TextPart("Reply with the word OK.")}}},
	})
	if t, resolveErr := s.resolve(ctx, entries, ModelRef(p.Name+"/"+model)); resolveErr == nil {
		cost, _ := s.cost(t, reply.Usage)
		out.CostMicros = max(cost, reply.Usage.ReportedMicros)
	}
	step("stream", fmt.Sprintf("%d tokens in, %d out", reply.Usage.Prompt(), reply.Usage.Output), err)
	return out, nil
}

// maxModelsList limits the size of a server's list of models, in bytes.
const maxModelsList = 4 << 20

// served returns the models that a service lists.
func (r *Router) served(ctx context.Context, t target) ([]string, error) {
	stream, err := r.open(ctx, t, t.entry.modelsEndpoint(), nil)
	if err != nil {
		return nil, err
	}
	defer stream.Body.Close()
	text, err := io.ReadAll(io.LimitReader(stream.Body, maxModelsList+1))
	if err != nil {
		return nil, err
	}
	c := cursor{b: text}
	if c.peek() != '{' || len(text) > maxModelsList {
		return nil, fault.Unavailablef("%s returned no list of models. Check the base URL.", t.title)
	}
	ids := []string{}
	c.object(func(key []byte) {
		switch string(key) {
		case "data", "models":
			c.array(func() {
				var id string
				c.object(func(key []byte) {
					switch string(key) {
					case "id", "name":
						id = cmp.Or(id, strings.TrimPrefix(c.str(), "models/"))
					}
				})
				if id != "" && !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
			})
		}
	})
	return ids, c.end()
}

// DetectResult holds the servers that answered.
type DetectResult struct {
	Found []Detected `json:"found"`
}

// Detected is a model server on this computer.
type Detected struct {
	Type    string   `json:"type"`
	BaseURL string   `json:"baseUrl"`
	Product string   `json:"product"`
	Models  []string `json:"models"`
}

// localPorts are the default ports of model servers.
var localPorts = []struct {
	port    int
	product string
}{{11434, "Ollama"}, {1234, "LM Studio"}, {8080, "llama.cpp"}, {8000, "vLLM"}}

// Detect looks for model servers on this computer.
func (s *Service) Detect(ctx context.Context, _ struct{}) (DetectResult, error) {
	out := DetectResult{Found: []Detected{}}
	for _, l := range localPorts {
		e := Entry{Type: WireChat, BaseURL: fmt.Sprintf("http://127.0.0.1:%d/v1", l.port), TimeoutIdleMs: 2000}
		ids, err := s.served(ctx, target{name: l.product, title: l.product, entry: e})
		if ctx.Err() != nil {
			return out, fault.As(ctx.Err())
		}
		if err == nil {
			out.Found = append(out.Found, Detected{e.Type, e.BaseURL, l.product, ids})
		}
	}
	return out, nil
}
