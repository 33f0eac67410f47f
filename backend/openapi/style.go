package openapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// scalar returns the text of a value that is neither an array nor an object.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case bool:
		return strconv.FormatBool(v), true
	case nil:
		return "", true
	}
	return "", false
}

// pair is one part of a serialized parameter.
type pair struct{ name, value string }

// pairs returns the members of an object in the order of their names, or the elements of an array
// without names. The parts of a deeper value are JSON.
func pairs(v any) (out []pair, isObject bool) {
	flat := func(v any) string {
		if s, ok := scalar(v); ok {
			return s
		}
		b, _ := json.Marshal(v) // decoded JSON can always be encoded
		return string(b)
	}
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			out = append(out, pair{"", flat(x)})
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out = append(out, pair{k, flat(v[k])})
		}
		return out, true
	}
	return out, false
}

const hexDigits = "0123456789ABCDEF"

// escape percent-encodes everything but the unreserved characters of RFC 3986. With reserved, the
// reserved characters also stay, except those that would begin another parameter or a fragment.
func escape(s string, reserved bool) string {
	for i := range len(s) {
		if !isPlain(s[i], reserved) {
			return string(appendEscaped(make([]byte, 0, len(s)+16), s, reserved))
		}
	}
	return s // most values
}

// appendEscaped is escape that appends to dst.
func appendEscaped(dst []byte, s string, reserved bool) []byte {
	for i := range len(s) {
		if c := s[i]; isPlain(c, reserved) {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return dst
}

func isPlain(c byte, reserved bool) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~' ||
		reserved && strings.IndexByte(":/?@!$'()*,;=", c) >= 0
}

// joined writes parts with their names as name+mid+value, or without names if mid is "".
func joined(list []pair, sep, mid string, named bool, enc func(string) string) string {
	out := make([]string, 0, len(list)*2)
	for _, p := range list {
		switch {
		case !named:
			out = append(out, enc(p.value))
		case mid == "": // name and value are elements of their own
			out = append(out, enc(p.name), enc(p.value))
		default:
			out = append(out, enc(p.name)+mid+enc(p.value))
		}
	}
	return strings.Join(out, sep)
}

// simple writes a value in the style simple: of paths, and of headers with enc that changes nothing.
func simple(v any, explode bool, enc func(string) string) string {
	if s, ok := scalar(v); ok {
		return enc(s)
	}
	list, isObject := pairs(v)
	if isObject && explode {
		return joined(list, ",", "=", true, enc)
	}
	return joined(list, ",", "", isObject, enc)
}

// label writes a value in the style label.
func label(v any, explode bool, enc func(string) string) string {
	if s, ok := scalar(v); ok {
		return "." + enc(s)
	}
	list, isObject := pairs(v)
	switch {
	case explode && isObject:
		return "." + joined(list, ".", "=", true, enc)
	case explode:
		return "." + joined(list, ".", "", false, enc)
	}
	return "." + joined(list, ",", "", isObject, enc)
}

// matrix writes a value in the style matrix.
func matrix(name string, v any, explode bool, enc func(string) string) string {
	key := ";" + enc(name)
	if s, ok := scalar(v); ok {
		if s == "" {
			return key
		}
		return key + "=" + enc(s)
	}
	list, isObject := pairs(v)
	switch {
	case explode && isObject:
		return ";" + joined(list, ";", "=", true, enc)
	case explode:
		return key + "=" + joined(list, key+"=", "", false, enc)
	}
	return key + "=" + joined(list, ",", "", isObject, enc)
}

// tabDelimited is the style of lists in Swagger 2.0 that OpenAPI 3 no longer has.
const tabDelimited = "x-tabDelimited"

// form writes a value as parameters of a query or of a form: in the styles form, spaceDelimited,
// pipeDelimited and deepObject.
func form(style, name string, v any, explode bool, enc func(string) string) (string, error) {
	key := enc(name)
	if s, ok := scalar(v); ok {
		return key + "=" + enc(s), nil
	}
	list, isObject := pairs(v)
	if style == "deepObject" {
		out, err := deep(name, v, enc, 0)
		return strings.Join(out, "&"), err
	}
	if len(list) == 0 {
		return "", nil
	}
	sep := ","
	switch style {
	case "spaceDelimited":
		sep = "%20"
	case "pipeDelimited":
		sep = "%7C"
	case tabDelimited:
		sep = "%09"
	}
	switch {
	case explode && isObject:
		return joined(list, "&", "=", true, enc), nil
	case explode:
		return key + "=" + joined(list, "&"+key+"=", "", false, enc), nil
	}
	return key + "=" + joined(list, sep, "", isObject, enc), nil
}

// deep writes the members of an object as name[member]=value. The standard defines one level of them; deeper
// ones, lists and lists of objects follow the common extension.
func deep(name string, v any, enc func(string) string, level int) (out []string, err error) {
	if level > 8 {
		return nil, fmt.Errorf("%s is nested too deeply", name)
	}
	add := func(key string, v any) {
		if s, ok := scalar(v); ok {
			out = append(out, enc(key)+"="+enc(s))
			return
		}
		more, derr := deep(key, v, enc, level+1)
		out, err = append(out, more...), cmp.Or(err, derr)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			add(name+"["+k+"]", v[k])
		}
	case []any:
		for i, x := range v {
			key := name
			if _, plain := scalar(x); !plain {
				key = fmt.Sprintf("%s[%d]", name, i)
			} else if level == 0 {
				key += "[]"
			}
			add(key, x)
		}
	}
	return out, err
}
