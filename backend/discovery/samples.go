package discovery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"helix/backend/fault"
	"helix/backend/jcs"
	"helix/backend/schema"
)

// Limits of samples.
const (
	maxSamples     = 20
	maxSampleBytes = 16 << 10
)

// Sample is a call whose result is known, so that a tool can be tried before it is used.
type Sample struct {
	Capability string          `json:"capability"`
	Params     json.RawMessage `json:"params,omitempty"`
	Expect     Expectation     `json:"expect"`
}

// Expectation is what the body of a result must be. Without any, the call must succeed.
type Expectation struct {
	Equals   json.RawMessage `json:"equals,omitempty"`
	Schema   json.RawMessage `json:"schema,omitempty"`
	Contains string          `json:"contains,omitempty"` // in the body as text
}

// SampleResult is what a sample showed.
type SampleResult struct {
	Capability string `json:"capability"`
	Result     string `json:"result"` // pass, fail or skipped
	Reason     string `json:"reason,omitempty"`
}

// readSamples reads the samples of a manifest. They are checked with the other parts of it.
func readSamples(v any) ([]Sample, error) {
	if v == nil {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok || len(list) > maxSamples {
		return nil, fault.InvalidField("samples", fault.CodeRange, "A manifest can list at most %d samples.", maxSamples)
	}
	out := make([]Sample, 0, len(list))
	for i, x := range list {
		raw := rawJSON(x)
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		var s Sample
		if err := d.Decode(&s); err != nil || len(raw) > maxSampleBytes {
			return nil, fault.InvalidField(fmt.Sprintf("samples/%d", i), fault.CodeInvalid, "A sample has a capability, params and expect with equals, schema or contains, and at most %d KiB.", maxSampleBytes>>10)
		}
		out = append(out, s)
	}
	return out, nil
}

// checkSamples validates the samples of a manifest.
func (m *Manifest) checkSamples() error {
	for i, s := range m.Samples {
		at := fmt.Sprintf("samples/%d", i)
		if _, ok := m.capability(s.Capability); !ok {
			return fault.InvalidField(at+"/capability", fault.CodeUnknownValue, "The tool has no operation %.100q.", s.Capability)
		}
		if s.Expect.Schema != nil {
			if _, err := schema.Compile(s.Expect.Schema); err != nil {
				return fault.InvalidField(at+"/expect/schema", fault.CodeInvalid, "The schema that a sample expects isn't valid: %s.", err)
			}
		}
	}
	return nil
}

// check returns why a body isn't the expected one, or "".
func (e *Expectation) check(ctx context.Context, body json.RawMessage) (string, error) {
	if e.Equals != nil {
		want, err := jcs.Canonicalize(e.Equals)
		if err != nil {
			return "", err
		}
		have, err := jcs.Canonicalize(body)
		if err != nil {
			return "", err
		}
		if !bytes.Equal(want, have) {
			return "the result isn't the expected one", nil
		}
	}
	if e.Contains != "" {
		var text string
		if json.Unmarshal(body, &text) != nil {
			text = string(body)
		}
		if !strings.Contains(text, e.Contains) {
			return fmt.Sprintf("the result doesn't contain %.100q", e.Contains), nil
		}
	}
	if e.Schema == nil {
		return "", nil
	}
	check, err := schema.Compile(e.Schema)
	if err != nil {
		return "", err
	}
	v, size, err := jcs.DecodeSized(body, schema.MaxDepth, 0)
	if err != nil {
		return "", err
	}
	list, err := check.CheckSized(ctx, v, size)
	if err != nil || len(list) == 0 {
		return "", err
	}
	return fmt.Sprintf("the result doesn't match the schema at %.200q: %s", list[0].Path, list[0].Message), nil
}
