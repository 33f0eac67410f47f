package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func parsed(folder, text string) *skillDoc {
	d := &skillDoc{text: text}
	d.parse(folder)
	return d
}

// Problems of a document are reported, and never hide the readable parts.
func TestSkillFrontMatter(t *testing.T) {
	t.Parallel()
	const good = "---\nname: pdf-forms\ndescription: Fills in PDF forms.\n"
	for name, x := range map[string]struct {
		text, folder string
		level        string // level of the first diagnostic; "": none
		says         string
	}{
		"good":            {text: good + "---\nBody"},
		"all fields":      {text: good + "license: MIT\ncompatibility: any\nmetadata:\n  author: me\n  version: 1\nallowed-tools: Read Bash(git:*)\nactivation: manual\nrequires: [a]\npriority: 7\n---\nBody"},
		"byte order mark": {text: "\xef\xbb\xbf" + good + "---\nBody"},
		"CRLF":            {text: strings.ReplaceAll(good+"---\nBody", "\n", "\r\n")},
		"no body":         {text: good + "---"},
		"no front matter": {text: "# PDF", level: levelError, says: "does not begin"},
		"open":            {text: good, level: levelError, says: "does not end"},
		"broken YAML":     {text: "---\nname: [pdf\n---\n", level: levelError, says: "can't be read"},
		"a list":          {text: "---\n- a\n---\n", level: levelError, says: "can't be read"},
		"references":      {text: "---\nname: &a pdf-forms\ndescription: *a\n---\n", level: levelError, says: "references"},
		"no name":         {text: "---\ndescription: x\n---\n", level: levelError, says: "no name"},
		"other name":      {text: good + "---\n", folder: "other", level: levelError, says: "that of its folder"},
		"bad name":        {text: "---\nname: PDF_Forms\ndescription: x\n---\n", level: levelError, says: "lower-case"},
		"no description":  {text: "---\nname: pdf-forms\n---\n", level: levelError, says: "no description"},
		"long":            {text: "---\nname: pdf-forms\ndescription: " + strings.Repeat("x", 1025) + "\n---\n", level: levelWarning, says: "1024"},
		"unknown field":   {text: good + "model: big\n---\n", level: levelWarning, says: "no field model"},
		"bad activation":  {text: good + "activation: never\n---\n", level: levelWarning, says: "activation"},
		"number as name":  {text: "---\nname: 7\ndescription: x\n---\n", level: levelError, says: "no name"},
		"huge":            {text: "---\nname: pdf-forms\nlicense: " + strings.Repeat("x", maxFrontMatter) + "\n---\n", level: levelError, says: "16 KiB"},
		"deep":            {text: "---\nname: " + strings.Repeat("[", 5000) + "\n---\n", level: levelError, says: "nested"},
	} {
		folder := "pdf-forms"
		if x.folder != "" {
			folder = x.folder
		}
		d := parsed(folder, x.text)
		switch {
		case x.level == "" && len(d.diagnostics) > 0:
			t.Errorf("%s: %+v", name, d.diagnostics)
		case x.level != "" && (len(d.diagnostics) == 0 || d.diagnostics[0].Level != x.level || !strings.Contains(d.diagnostics[0].Message, x.says)):
			t.Errorf("%s: %+v", name, d.diagnostics)
		}
	}
	d := parsed("pdf-forms", good+"metadata: {version: 1}\nallowed-tools: [Read, Bash]\npriority: 7\nactivation: always\n---\nBody")
	if d.Metadata["version"] != "1" || len(d.AllowedTools) != 2 || d.Priority != 7 || d.Activation != activationAlways || d.body != "Body" {
		t.Errorf("%+v", d)
	}
}

// A large folder is read up to the limit; links out of it are not followed, and a broken document
// hides no other.
func TestSkillFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	doc := func(name string) string { return "---\nname: " + name + "\ndescription: x\n---\nBody" }
	put("a/SKILL.md", doc("a"))
	put("a/scripts/run.sh", "echo")
	put("b/SKILL.md", "broken")
	put("c/deep/SKILL.md", doc("deep"))
	put("1/2/3/4/5/6/7/SKILL.md", doc("7"))
	put("big/SKILL.md", doc("big")+strings.Repeat("x", 1<<20))
	outside := filepath.Join(t.TempDir(), "SKILL.md")
	if err := os.WriteFile(outside, []byte(doc("linked")+"SECRET"), 0o600); err != nil {
		t.Fatal(err)
	}
	put("linked/other.md", "")
	for link, to := range map[string]string{"linked/SKILL.md": outside, "folder": filepath.Dir(outside), "a/secret.md": outside} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]*skillDoc{}
	for _, d := range findSkills(dir, "user") {
		got[d.Name] = d
		if strings.Contains(d.text+d.definition, "SECRET") {
			t.Errorf("%s holds what a link leads to", d.Name)
		}
	}
	if len(got) != 5 || got["a"].invalid() || !got["b"].invalid() || got["deep"].invalid() || !got["big"].invalid() || !got["linked"].invalid() {
		t.Fatalf("%v", got)
	}
	if fmt.Sprint(got["a"].files) != "[scripts/run.sh]" || len(got["a"].diagnostics) != 1 {
		t.Errorf("%v %+v", got["a"].files, got["a"].diagnostics)
	}
	was := got["a"].hash
	put("a/scripts/run.sh", "rm -rf")
	if now := findSkills(dir, "user")[0]; now.hash == was {
		t.Error("a script changes without the hash")
	}
	for i := range 3000 {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprintf("m%04d", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	put("zzz/SKILL.md", doc("zzz"))
	for _, d := range findSkills(dir, "user") {
		if d.Name == "zzz" {
			t.Error("folder 3,000 is read")
		}
	}
}

// Whatever the front matter contains, parsing ends and its result is usable.
func FuzzSkillFrontMatter(f *testing.F) {
	for _, text := range []string{"---\nname: a\ndescription: b\n---\nBody", "---\n- a\n---", "---\nmetadata: {a: [1, 2]}\npriority: -1\n---", "---\na: &x [*x]\n---", "---\n? [a]\n: b\n---\n", "---\n\"\\u0000\": |\n  x\n---\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := parsed("a", text)
		if !d.invalid() && (!isPlainName(d.Name) || d.Description == "" || len(d.Description) > 4*1024) {
			t.Errorf("%+v", d.SkillFront)
		}
	})
}
