package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"helix/backend/fault"
)

// Setting describes one key. Values have the types of JSON and TOML: bool, int64, string or
// []string; the unit of a number is Unit.
type Setting struct {
	Key     string
	Env     string // its environment variable
	Type    string // boolean, integer, string or array (of strings)
	Unit    string // bytes, ms, s, h, d, rows, …; "" for none
	Min     int64  // only if Bounded
	Max     int64
	Bounded bool
	Enum    []string
	Restart bool
	Help    string

	def   string
	check string
	field int
	scale time.Duration // of a time.Duration field
}

var units = map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "h": time.Hour, "d": 24 * time.Hour}

// settings parses the tags of Config once.
var settings = sync.OnceValue(func() []Setting {
	t := reflect.TypeFor[Config]()
	out := make([]Setting, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		s := Setting{
			Key: f.Tag.Get("key"), Unit: f.Tag.Get("unit"), Help: f.Tag.Get("help"),
			Restart: f.Tag.Get("restart") == "true", def: f.Tag.Get("default"), check: f.Tag.Get("check"), field: i,
		}
		s.Env = envName(s.Key)
		if e := f.Tag.Get("enum"); e != "" {
			s.Enum = strings.Split(e, ",")
		}
		if lo, hi := f.Tag.Get("min"), f.Tag.Get("max"); lo != "" || hi != "" {
			s.Bounded = true
			s.Min, _ = strconv.ParseInt(lo, 10, 64)
			s.Max, _ = strconv.ParseInt(hi, 10, 64)
		}
		switch {
		case f.Type == reflect.TypeFor[time.Duration]():
			s.Type, s.scale = "integer", units[s.Unit]
		case f.Type.Kind() == reflect.Bool:
			s.Type = "boolean"
		case f.Type.Kind() == reflect.Slice:
			s.Type = "array"
		case f.Type.Kind() == reflect.String:
			s.Type = "string"
		default:
			s.Type = "integer"
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Setting) int { return cmp.Compare(a.Key, b.Key) })
	return out
})

// Settings lists every setting, sorted by key.
func Settings() []Setting { return slices.Clone(settings()) }

// lookup returns a setting by its key; my.max_size is also found as my.maxSize.
func lookup(key string) (Setting, bool) {
	i := slices.IndexFunc(settings(), func(s Setting) bool { return fold(s.Key) == fold(key) })
	if i < 0 {
		return Setting{}, false
	}
	return settings()[i], true
}

func fold(key string) string { return strings.ToLower(strings.ReplaceAll(key, "_", "")) }

var camel = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// envName returns the environment variable of a key: gateway.addr is HELIX_GATEWAY_ADDR.
func envName(key string) string {
	return "HELIX_" + strings.ToUpper(strings.ReplaceAll(camel.ReplaceAllString(key, "${1}_${2}"), ".", "_"))
}

// Default returns the value without any file, variable or flag.
func (s Setting) Default() any { v, _ := s.Parse(s.def); return v }

// Parse parses the text of a variable or flag. Lists are separated by commas; sizes may end in KiB,
// MiB or GiB, times in ms, s, m, h or d.
func (s Setting) Parse(text string) (any, error) {
	text = strings.TrimSpace(text)
	switch s.Type {
	case "boolean":
		switch strings.ToLower(text) {
		case "true", "1", "yes", "on":
			return true, nil
		case "false", "0", "no", "off":
			return false, nil
		}
		return nil, s.invalid(text)
	case "integer":
		n, err := s.parseNumber(text)
		if err != nil {
			return nil, s.invalid(text)
		}
		return s.Accept(n)
	case "array":
		list := []string{}
		for p := range strings.SplitSeq(text, ",") {
			if p = strings.TrimSpace(p); p != "" {
				list = append(list, p)
			}
		}
		return s.Accept(list)
	}
	return s.Accept(text)
}

var (
	sizeUnits = map[string]int64{"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
	timeUnits = map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	quantity  = regexp.MustCompile(`^([0-9]{1,18})\s*([A-Za-z]*)$`)
)

func (s Setting) parseNumber(text string) (int64, error) {
	m := quantity.FindStringSubmatch(text)
	if m == nil {
		return strconv.ParseInt(text, 10, 64)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || m[2] == "" {
		return n, err
	}
	var per int64
	if s.scale > 0 {
		if d := timeUnits[m[2]]; d > 0 {
			if n > math.MaxInt64/int64(d) || time.Duration(n)*d%s.scale != 0 {
				return 0, strconv.ErrRange
			}
			return int64(time.Duration(n) * d / s.scale), nil
		}
	} else if s.Unit == "bytes" {
		per = sizeUnits[strings.ToLower(m[2])]
	}
	if per == 0 || n > math.MaxInt64/per {
		return 0, strconv.ErrSyntax
	}
	return n * per, nil
}

// Accept checks a value from TOML or JSON and returns it as bool, int64, string or []string. The
// error is Invalid with details {key, value, range}.
func (s Setting) Accept(v any) (any, error) {
	switch s.Type {
	case "boolean":
		if b, ok := v.(bool); ok {
			return b, nil
		}
	case "integer":
		n, ok := integer(v)
		if text, isText := v.(string); isText {
			var err error
			n, err = s.parseNumber(strings.TrimSpace(text))
			ok = err == nil
		}
		if ok && (!s.Bounded || s.Min <= n && n <= s.Max) {
			return n, nil
		}
	case "string":
		if t, ok := v.(string); ok && len(t) <= 1000 && (s.Enum == nil || slices.Contains(s.Enum, t)) && checks[s.check](t) {
			return t, nil
		}
	case "array":
		list, ok := texts(v)
		if ok && len(list) <= 100 && !slices.ContainsFunc(list, func(t string) bool { return !checks[s.check](t) }) {
			return list, nil
		}
	}
	return nil, s.invalid(v)
}

func (s Setting) invalid(v any) error {
	return fault.Invalidf("%s can't be %s: it must be %s.", s.Key, shown(v), s.Range()).
		WithDetails(map[string]any{"key": s.Key, "value": v, "range": s.Range()})
}

func shown(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%T", v)
	}
	if len(b) > 80 {
		return string([]rune(string(b))[:40]) + "…"
	}
	return string(b)
}

var checkHelp = map[string]string{
	"loopback":  "a loopback address with a port, such as 127.0.0.1:18789",
	"origins":   "a list of origins, such as http://localhost:5173",
	"quiet":     "empty or two times such as 22:00-07:00",
	"zone":      "empty or a time zone such as Europe/Berlin",
	"collector": "empty or an address such as http://localhost:4318",
	"search":    "empty, brave, tavily or an address such as https://searx.example",
	"engine":    "empty, off or a socket such as unix:///run/podman/podman.sock",
	"weights":   "empty or three numbers from 0 to 10 that are not all 0, such as 1, 0.4, 0.5",
}

// Range describes what the setting accepts, for people.
func (s Setting) Range() string {
	switch {
	case s.Enum != nil:
		return "one of " + strings.Join(s.Enum, ", ")
	case s.check != "":
		return checkHelp[s.check]
	case s.Type == "boolean":
		return "true or false"
	case s.Type == "array":
		return "a list of texts"
	case s.Bounded && s.Unit != "":
		return fmt.Sprintf("%d to %d (%s)", s.Min, s.Max, s.Unit)
	case s.Bounded:
		return fmt.Sprintf("%d to %d", s.Min, s.Max)
	}
	return "a text"
}

// checks are the extra rules; the one with the key "" accepts everything.
var checks = map[string]func(string) bool{
	"": func(string) bool { return true },
	"loopback": func(t string) bool {
		host, port, err := net.SplitHostPort(t)
		if err != nil {
			return false
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
			return false
		}
		ip := net.ParseIP(host)
		return host == "localhost" || ip != nil && ip.IsLoopback()
	},
	"origins": func(t string) bool {
		u, err := url.Parse(t)
		return err == nil && (u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "wails") && u.Host != "" &&
			u.User == nil && u.Path == "" && u.RawQuery == "" && u.Fragment == "" && !strings.ContainsAny(t, "*#?")
	},
	"collector": func(t string) bool {
		u, err := url.Parse(t)
		return t == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
	},
	"search": func(t string) bool {
		u, err := url.Parse(t)
		return t == "" || t == "brave" || t == "tavily" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
	},
	"engine":  func(t string) bool { return t == "" || t == "off" || strings.HasPrefix(t, "unix:///") },
	"weights": func(t string) bool { _, ok := Numbers(t, 3, 10); return ok },
	"zone": func(t string) bool {
		_, err := time.LoadLocation(t)
		return err == nil && t != "Local"
	},
	"quiet": func(t string) bool {
		return t == "" || regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$`).MatchString(t)
	},
}

// Numbers parses n comma-separated numbers from 0 to most, at least one of which must be more than
// 0; an empty text returns n zeros.
func Numbers(text string, n int, most float64) ([]float64, bool) {
	out, some := make([]float64, n), false
	if strings.TrimSpace(text) == "" {
		return out, true
	}
	list := strings.Split(text, ",")
	if len(list) != n {
		return out, false
	}
	for i, t := range list {
		v, err := strconv.ParseFloat(strings.TrimSpace(t), 64)
		if err != nil || !(v >= 0 && v <= most) {
			return out, false
		}
		out[i], some = v, some || v > 0
	}
	return out, some
}

func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case float64: // JSON
		if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			return int64(n), true
		}
	case json.Number:
		i, err := n.Int64()
		return i, err == nil
	}
	return 0, false
}

func texts(v any) ([]string, bool) {
	switch l := v.(type) {
	case []string:
		return append([]string{}, l...), true
	case []any:
		out := make([]string, 0, len(l))
		for _, e := range l {
			t, ok := e.(string)
			if !ok {
				return nil, false
			}
			out = append(out, t)
		}
		return out, true
	}
	return nil, false
}

// put stores an accepted value in its field.
func (s Setting) put(c *Config, v any) {
	f := reflect.ValueOf(c).Elem().Field(s.field)
	switch x := v.(type) {
	case bool:
		f.SetBool(x)
	case int64:
		if s.scale > 0 {
			x *= int64(s.scale)
		}
		f.SetInt(x)
	case string:
		f.SetString(x)
	case []string:
		f.Set(reflect.ValueOf(slices.Clone(x)))
	}
}

// get returns the value of the field in its JSON and TOML type.
func (s Setting) get(c *Config) any {
	f := reflect.ValueOf(c).Elem().Field(s.field)
	switch f.Kind() {
	case reflect.Bool:
		return f.Bool()
	case reflect.String:
		return f.String()
	case reflect.Slice:
		return append([]string{}, f.Interface().([]string)...)
	}
	n := f.Int()
	if s.scale > 0 {
		n /= int64(s.scale)
	}
	return n
}
