package embed

import (
	"context"
	"testing"
)

func TestFirst(t *testing.T) {
	m, err := Open()
	if err != nil {
		t.Skip(err)
	}
	texts := []string{"The cat sat on the mat.", "A kitten is resting on a rug.", "Stock prices fell sharply on Monday.", ""}
	v, err := m.Embed(context.Background(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range v {
		for _, b := range v {
			var s float32
			for i := range a {
				s += a[i] * b[i]
			}
			t.Logf("%.4f ", s)
		}
	}
	t.Log(m.Tokens(texts[0]), v[0][:4])
}
