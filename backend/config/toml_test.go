package config

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

func TestEditKeepsEverythingElse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, before, after string
		edits               []edit
	}{
		{"empty file", "", "app.theme = \"dark\"\n", []edit{{"app.theme", "dark"}}},
		{"replace, comments stay",
			"# my settings\n\napp.theme = \"light\"   # for the day\ngateway.enabled=true\n",
			"# my settings\n\napp.theme = \"dark\"   # for the day\ngateway.enabled=true\n", []edit{{"app.theme", "dark"}}},
		{"no line end at the end", "gateway.enabled = true", "gateway.enabled = true\napp.theme = \"dark\"\n", []edit{{"app.theme", "dark"}}},
		{"reset removes the line, not its comment",
			"a.b = 1\napp.theme = \"light\" # why\nx = 2\n", "a.b = 1\n# why\nx = 2\n", []edit{{"app.theme", nil}}},
		{"reset without a comment", "a.b = 1\r\napp.theme = \"light\"\r\nx = 2\r\n", "a.b = 1\r\nx = 2\r\n", []edit{{"app.theme", nil}}},
		{"reset of what is not there", "x = 1\n", "x = 1\n", []edit{{"app.theme", nil}}},
		{"table", "[gateway] # g\nenabled = false # off\naddr = \"127.0.0.1:1\"\n[app]\ntheme = \"light\"\n",
			"[gateway] # g\nenabled = true # off\naddr = \"127.0.0.1:1\"\n[app]\ntheme = \"dark\"\n", []edit{{"gateway.enabled", true}, {"app.theme", "dark"}}},
		{"a new key goes before the tables", "# head\nx = 1\n\n[gateway]\nenabled = false\n", "# head\nx = 1\n\napp.theme = \"dark\"\n\n[gateway]\nenabled = false\n", []edit{{"app.theme", "dark"}}},
		{"tables only", "[y]\nz = 1\n", "app.theme = \"dark\"\n\n[y]\nz = 1\n", []edit{{"app.theme", "dark"}}},
		{"Windows line ends", "x = 1\r\ny = 2\r\n", "x = 1\r\ny = 2\r\napp.theme = \"dark\"\r\n", []edit{{"app.theme", "dark"}}},
		{"list over many lines",
			"gateway.origins = [ # mine\n  \"http://a\", # one ]\n  'http://b',\n] # end\napp.theme = \"light\"\n",
			"gateway.origins = [\"http://c\", \"http://d\"] # end\napp.theme = \"light\"\n", []edit{{"gateway.origins", []string{"http://c", "http://d"}}}},
		{"long strings", "a = \"\"\"x\napp.theme = 1\n\"\"\"\nb = '''\n[no]\n'''\nc = \"# [x] \\\" = \"\napp.theme = 'light'\n",
			"a = \"\"\"x\napp.theme = 1\n\"\"\"\nb = '''\n[no]\n'''\nc = \"# [x] \\\" = \"\napp.theme = \"dark\"\n", []edit{{"app.theme", "dark"}}},
		{"quoted keys", "\"app\" . 'theme' = \"light\"\n", "\"app\" . 'theme' = \"dark\"\n", []edit{{"app.theme", "dark"}}},
		{"another spelling", "sandbox.min_isolation = \"inprocess\"\n", "sandbox.min_isolation = \"process\"\n", []edit{{"sandbox.minIsolation", "process"}}},
		{"byte order mark", "\xef\xbb\xbfapp.theme = \"light\"\n", "\xef\xbb\xbfapp.theme = \"dark\"\n", []edit{{"app.theme", "dark"}}},
		{"text that needs escapes", "", "memory.zone = \"a\\\"b\\\\c\\n\\u0001é\"\n", []edit{{"memory.zone", "a\"b\\c\n\x01é"}}},
		{"array of tables", "[[app]]\ntheme = \"x\"\n", "", []edit{{"app.theme", "dark"}}},
		{"inline table", "app = { theme = \"light\", gpu = \"on\" }\n", "", []edit{{"app.theme", "dark"}}},
	} {
		got, err := editTOML([]byte(c.before), c.edits)
		if c.after == "" {
			if err == nil {
				t.Errorf("%s: edited to %q, want a refusal", c.name, got)
			}
			continue
		}
		if err != nil || string(got) != c.after {
			t.Errorf("%s:\n got %q, %v\nwant %q", c.name, got, err, c.after)
		}
	}
}

func TestTOMLErrorsHavePosition(t *testing.T) {
	t.Parallel()
	_, err := decodeTOML([]byte("a = 1\nb = \"open\n"))
	if line, column := positionOf(err); line != 2 || column == 0 {
		t.Errorf("line %d, column %d in %v", line, column, err)
	}
	if _, err := decodeTOML([]byte("a = 1\na = 2\n")); err == nil {
		t.Error("a double key was accepted")
	}
}

func FuzzEditTOML(f *testing.F) {
	for _, s := range []string{"", "a = 1\n", "[app]\ntheme = 'x' # c\n", "app.theme = \"\"\"\n\"\"\"", "x = [1, # ]\n 2]\r\n[y]\n", "app = {theme=1}", "\"app\".theme=2", "[[app]]\n"} {
		f.Add([]byte(s), "dark", false)
	}
	f.Fuzz(func(t *testing.T, text []byte, value string, reset bool) {
		before, err := decodeTOML(text)
		if err != nil {
			return
		}
		e := edit{key: "app.theme", value: value}
		if reset {
			e.value = nil
		}
		after, err := editTOML(text, []edit{e})
		if err != nil {
			return // rejected: nothing is written
		}
		got, err := decodeTOML(after)
		if err != nil {
			t.Fatalf("%q became %q, which does not parse: %v", text, after, err)
		}
		found := false
		for k, v := range got {
			if fold(k) == fold(e.key) {
				found = true
				if reset || v != value {
					t.Fatalf("%q became %q: %s = %v", text, after, k, v)
				}
			} else if w, ok := before[k]; !ok || fmt.Sprint(v) != fmt.Sprint(w) {
				t.Fatalf("%q became %q: %s changed", text, after, k)
			}
		}
		maps.DeleteFunc(before, func(k string, _ any) bool { return fold(k) == fold(e.key) })
		n := len(got)
		if found {
			n--
		}
		if n != len(before) || found == reset {
			t.Fatalf("%q became %q: keys are lost", text, after)
		}
		if c := strings.Count(string(text), "#"); !reset && strings.Count(string(after), "#") < c && len(before) == n && found && !strings.ContainsAny(string(text), "[{\"'") {
			t.Fatalf("%q became %q: a comment is lost", text, after)
		}
	})
}
