package tools

import "testing"

func TestCreateThenRunByID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Name: "Adder", Code: "return params.a + params.b"})
	r := b.run(t, tool, `{"a":40,"b":2}`)
	if !r.Success || string(r.Output) != "42" {
		t.Fatalf("result = %+v", r)
	}
	l, err := b.List(b.ctx, ListParams{})
	if err != nil || l.Total != 1 || l.Tools[0].UsageCount != 1 || l.Tools[0].LastStatus != "success" {
		t.Fatalf("list = %+v, %v", l, err)
	}
}
