package lifecycle

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"helix/backend/fault"
)

var plainContainer = Container{Format: "things", Version: 1, MaxBytes: 1 << 12, MaxDepth: 8}
var sealedContainer = Container{Format: "things", Version: 1, MaxBytes: 1 << 12, Sealed: true}

func sealedText(t testing.TB, text string) string {
	t.Helper()
	sum, err := sealSum([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(text, "}") + `,"sha256":"` + sum + `"}`
}

func TestContainerRejectsDamagedFiles(t *testing.T) {
	t.Parallel()
	const good = `{"format":"things","formatVersion":1,"x":[1]}`
	for name, c := range map[string]struct {
		c     Container
		text  string
		field string
		kind  fault.Kind // "": can be read
	}{
		"plain":               {plainContainer, good, "", ""},
		"sealed":              {sealedContainer, sealedText(t, good), "", ""},
		"no sum":              {sealedContainer, good, "sha256", fault.Invalid},
		"sum is a number":     {sealedContainer, strings.TrimSuffix(good, "}") + `,"sha256":1}`, "sha256", fault.Invalid},
		"changed":             {sealedContainer, strings.Replace(sealedText(t, good), "[1]", "[2]", 1), "sha256", fault.Invalid},
		"member added":        {sealedContainer, strings.Replace(sealedText(t, good), `"x"`, `"y":1,"x"`, 1), "sha256", fault.Invalid},
		"other format":        {plainContainer, `{"format":"zip"}`, "format", fault.Invalid},
		"newer version":       {plainContainer, `{"format":"things","formatVersion":2}`, "formatVersion", fault.Invalid},
		"too large":           {plainContainer, strings.Repeat(" ", 1<<12) + good, "", fault.Limit},
		"too deep":            {plainContainer, `{"format":"things","formatVersion":1,"x":` + strings.Repeat("[", 9) + strings.Repeat("]", 9) + `}`, "", fault.Invalid},
		"member twice":        {plainContainer, `{"format":"things","format":"things","formatVersion":1}`, "", fault.Invalid},
		"member twice, seal":  {sealedContainer, `{"format":"things","format":"things","formatVersion":1}`, "", fault.Invalid},
		"a list":              {plainContainer, `[]`, "", fault.Invalid},
		"cut off":             {sealedContainer, good[:len(good)-1], "", fault.Invalid},
		"text after the file": {plainContainer, good + "1", "", fault.Invalid},
	} {
		_, headed, err := c.c.Read([]byte(c.text))
		var e *ContainerError
		switch {
		case c.kind == "" && (err != nil || !headed):
			t.Errorf("%s: %v", name, err)
		case c.kind != "" && (!fault.Is(err, c.kind) || !errors.As(err, &e) || e.Field != c.field):
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, headed, err := plainContainer.Read([]byte(`{"name":"old"}`)); err != nil || headed {
		t.Errorf("without a format: %v", err)
	}
}

// FuzzContainer checks that errors have a code, and that nothing in a sealed file can be changed.
func FuzzContainer(f *testing.F) {
	f.Add([]byte(`{"format":"things","formatVersion":1,"x":[1]}`))
	f.Add([]byte(sealedText(f, `{"format":"things","formatVersion":1}`)))
	f.Add([]byte(`{"name":"old"}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, c := range []Container{plainContainer, sealedContainer} {
			text, headed, err := c.Read(raw)
			if err != nil {
				if !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Limit) {
					t.Fatal(err)
				}
				continue
			}
			if !json.Valid(text) {
				t.Fatalf("%q", text)
			}
			if !headed || !c.Sealed {
				continue
			}
			changed := strings.TrimSuffix(string(text), "}") + `,"zz":0}`
			if _, _, err := c.Read([]byte(changed)); err == nil {
				t.Fatalf("accepted with another member: %q", changed)
			}
		}
	})
}
