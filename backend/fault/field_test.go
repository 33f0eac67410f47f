package fault

import (
	"encoding/json"
	"errors"
	"testing"
)

func TestInAddsTheFieldAndKeepsOtherDetails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"no details", NotFoundf("x"), `{"code":"not_found","field":"target"}`},
		{"a field", InvalidField("timezone", CodeUnknownValue, "x"), `{"code":"unknown_value","field":"target.timezone"}`},
		{"an index", InvalidField("[2].name", CodeMissing, "x"), `{"code":"missing","field":"target[2].name"}`},
		{"other details", Conflictf("x").WithDetails(map[string]int{"revision": 3}), `{"code":"conflict","field":"target","revision":3}`},
		{
			"several fields", Invalidf("x").WithDetails(FieldErrors{[]FieldProblem{{"city", CodeMissing, "It is required."}}}),
			`{"code":"invalid","errors":[{"code":"missing","message":"It is required.","path":"city"}],"field":"target"}`,
		},
		{"details that are no object", Limitf("x").WithDetails([]int{1}), `{"code":"limit","field":"target"}`},
	} {
		got := As(In("target", c.err))
		raw, err := json.Marshal(got.Details)
		if err != nil || string(raw) != c.want || got.Kind != KindOf(c.err) || got.Message != "x" {
			t.Errorf("%s: %s %q %s, %v; want %s", c.name, got.Kind, got.Message, raw, err, c.want)
		}
	}
	broken := errors.New("disk on fire")
	if In("target", nil) != nil || In("target", broken) != broken {
		t.Error("an error that is not about the request was changed")
	}
}
