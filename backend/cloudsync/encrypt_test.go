package cloudsync

import (
	"bytes"
	"testing"

	"github.com/google/uuid"
)

func TestSensitiveTextsAreBoundToTheirPlace(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	c := must[Cipher](t)(newCipher(bytes.Repeat([]byte{7}, userKeySize), 3))
	for _, text := range []string{"", "hello", "hx1.3.abc", "hx0.hx1."} {
		for _, c := range []Cipher{c, {}} {
			sealed := c.seal("memories", "content", id, text)
			if got, err := c.open("memories", "content", id, sealed); err != nil || got != text {
				t.Errorf("%q became %q, %v", text, got, err)
			}
		}
		sealed := c.seal("memories", "content", id, text)
		other := must[Cipher](t)(newCipher(bytes.Repeat([]byte{8}, userKeySize), 3))
		for name, open := range map[string]func() (string, error){
			"another row":    func() (string, error) { return c.open("memories", "content", uuid.New(), sealed) },
			"another column": func() (string, error) { return c.open("memories", "metadata", id, sealed) },
			"another table":  func() (string, error) { return c.open("documents", "content", id, sealed) },
			"another key":    func() (string, error) { return other.open("memories", "content", id, sealed) },
			"no key":         func() (string, error) { return Cipher{}.open("memories", "content", id, sealed) },
			"cut off":        func() (string, error) { return c.open("memories", "content", id, sealed[:len(sealed)-2]) },
		} {
			if got, err := open(); err == nil {
				t.Errorf("%s: %q was read", name, got)
			}
		}
	}
}
