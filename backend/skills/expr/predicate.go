package expr

import "encoding/json"

// Predicate compiles a condition into a function that reports whether it holds for a document.
func Predicate(text string) (func(doc any) (bool, error), error) {
	c, err := ParseCondition(text)
	if err != nil {
		return nil, err
	}
	return func(doc any) (bool, error) {
		raw, err := json.Marshal(doc)
		if err != nil {
			return false, err
		}
		v, err := Decode(raw)
		if err != nil {
			return false, err
		}
		return c.Holds(v)
	}, nil
}
