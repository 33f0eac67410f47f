package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// checkJSON reads one JSON text token by token and refuses what encoding/json lets pass:
// duplicate keys, nesting beyond depth, more than nodes values (0: no bound), text after
// the value.
func checkJSON(raw []byte, depth, nodes int) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	c := jsonChecker{dec: dec, depth: depth, nodes: nodes}
	if err := c.value(0); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("the JSON ends too early")
		}
		var syn *json.SyntaxError
		if errors.As(err, &syn) {
			return fmt.Errorf("not valid JSON at byte %d", syn.Offset)
		}
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text after the JSON value")
	}
	return nil
}

type jsonChecker struct {
	dec   *json.Decoder
	depth int
	nodes int
	seen  int
}

func (c *jsonChecker) value(level int) error {
	t, err := c.dec.Token()
	if err != nil {
		return err
	}
	return c.after(t, level)
}

func (c *jsonChecker) after(t json.Token, level int) error {
	if c.seen++; c.nodes > 0 && c.seen > c.nodes {
		return fmt.Errorf("it has more than %d values", c.nodes)
	}
	d, ok := t.(json.Delim)
	if !ok {
		return nil
	}
	if level >= c.depth {
		return fmt.Errorf("it is nested more than %d levels deep", c.depth)
	}
	var keys map[string]bool
	for c.dec.More() {
		if d == '{' {
			k, err := c.dec.Token()
			if err != nil {
				return err
			}
			name, _ := k.(string)
			if keys == nil {
				keys = map[string]bool{}
			}
			if keys[name] {
				return fmt.Errorf("the key %q is given twice", shorten(name, 60))
			}
			keys[name] = true
		}
		if err := c.value(level + 1); err != nil {
			return err
		}
	}
	_, err := c.dec.Token()
	return err
}

// marshal is json.Marshal without HTML escapes.
func marshal(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}
