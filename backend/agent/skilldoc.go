package agent

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

const (
	skillFile        = "SKILL.md"
	maxSkillText     = 256 << 10
	maxFrontMatter   = 16 << 10
	maxFrontNesting  = 16
	maxSkillFiles    = 100
	maxSkillFileSize = 1 << 20
	maxSkillDepth    = 6
	maxSkillFolders  = 2000
	skillBodyTokens  = 5000
	skillIndexTokens = 3000
)

// SkillFront is the front matter of a SKILL.md document.
type SkillFront struct {
	Name          string            `json:"name"`
	Description   string            `json:"description"`
	License       string            `json:"license,omitempty"`
	Compatibility string            `json:"compatibility,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
	AllowedTools  []string          `json:"allowedTools,omitempty"` // tools that it asks for; they are not granted by this
	Activation    string            `json:"activation"`             // auto, manual or always
	Requires      []string          `json:"requires,omitempty"`
	Env           []string          `json:"env,omitempty"`
	Priority      int               `json:"priority"`
}

// SkillDiagnostic is a problem of a document. A document with an error can't be used.
type SkillDiagnostic struct {
	Level   string `json:"level"` // error or warning
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

const (
	levelError   = "error"
	levelWarning = "warning"
)

// The values of the field activation.
const (
	activationAuto   = "auto"   // default: listed in the index of the prompt
	activationManual = "manual" // used only when named
	activationAlways = "always" // its text is part of every prompt
)

// skillDoc is a document as read from its folder.
type skillDoc struct {
	SkillFront
	source string // project, user, shared or managed
	path   string // of its folder
	text   string // of SKILL.md
	body   string
	files  []string // the other files in its folder
	// definition is the text that a person approves: SKILL.md and the hashes of the other files.
	definition, hash string
	diagnostics      []SkillDiagnostic
}

func (d *skillDoc) report(level, field, format string, args ...any) {
	d.diagnostics = append(d.diagnostics, SkillDiagnostic{level, field, fmt.Sprintf(format, args...)})
}

func (d *skillDoc) invalid() bool {
	return slices.ContainsFunc(d.diagnostics, func(x SkillDiagnostic) bool { return x.Level == levelError })
}

// parse parses the text of a document. It reports every problem as a diagnostic.
func (d *skillDoc) parse(folder string) {
	d.Name, d.Activation, d.Priority = folder, activationAuto, 100
	text := strings.ReplaceAll(strings.TrimPrefix(d.text, "\xef\xbb\xbf"), "\r\n", "\n")
	d.body = text
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		d.report(levelError, "", "It does not begin with front matter between two lines of ---.")
		return
	}
	head, body, ok := strings.Cut("\n"+rest, "\n---\n")
	if !ok {
		if head, ok = strings.CutSuffix("\n"+rest, "\n---"); !ok {
			d.report(levelError, "", "The front matter does not end with a line of ---.")
			return
		}
	}
	d.body = strings.TrimSpace(body)
	fields, err := frontMatter([]byte(strings.TrimPrefix(head, "\n")))
	if err != nil {
		d.report(levelError, "", "The front matter can't be read: %s", err)
		return
	}
	for key := range fields {
		if !slices.Contains([]string{"name", "description", "license", "compatibility", "metadata", "allowed-tools", "activation", "requires", "env", "priority"}, key) {
			d.report(levelWarning, key, "There is no field %s; it is ignored.", key)
		}
	}
	d.take(fields, folder)
	slices.SortStableFunc(d.diagnostics, func(a, b SkillDiagnostic) int {
		return cmp.Or(strings.Compare(a.Level, b.Level), strings.Compare(a.Field, b.Field))
	})
}

// take checks the fields of the front matter.
func (d *skillDoc) take(fields map[string]any, folder string) {
	text := func(key string, most int) string {
		v, there := fields[key]
		s, ok := v.(string)
		if there && v != nil && !ok {
			d.report(levelWarning, key, "%s is not text.", key)
		}
		if s = strings.TrimSpace(s); utf8.RuneCountInString(s) > most {
			d.report(levelWarning, key, "%s has more than %d characters.", key, most)
			s = string([]rune(s)[:most])
		}
		return s
	}
	list := func(key string) (out []string) {
		switch v := fields[key].(type) {
		case nil:
		case string:
			return strings.Fields(strings.ReplaceAll(v, ",", " "))
		case []any:
			for _, x := range v {
				out = append(out, fmt.Sprint(x))
			}
		default:
			d.report(levelWarning, key, "%s is no list.", key)
		}
		return out
	}
	switch name := text("name", 64); {
	case name == "":
		d.report(levelError, "name", "It has no name.")
	case !isPlainName(name):
		d.report(levelError, "name", "The name %q is not made of lower-case letters, digits and single hyphens, at most 64.", name)
	case name != folder:
		d.Name = name
		d.report(levelError, "name", "The name %q is not that of its folder, %q.", name, folder)
	}
	if d.Description = text("description", 1024); d.Description == "" {
		d.report(levelError, "description", "It has no description, so nobody knows when to use it.")
	}
	d.License, d.Compatibility = text("license", 200), text("compatibility", 500)
	d.AllowedTools, d.Requires, d.Env = list("allowed-tools"), list("requires"), list("env")
	switch v := fields["metadata"].(type) {
	case nil:
	case map[string]any:
		d.Metadata = map[string]string{}
		for k, x := range v {
			d.Metadata[k] = fmt.Sprint(x)
		}
	default:
		d.report(levelWarning, "metadata", "metadata has no keys.")
	}
	switch a := text("activation", 20); a {
	case "":
	case activationAuto, activationManual, activationAlways:
		d.Activation = a
	default:
		d.report(levelWarning, "activation", "activation must be auto, manual or always.")
	}
	switch v := fields["priority"].(type) {
	case nil:
	case int:
		d.Priority = max(-1_000_000, min(v, 1_000_000))
	default:
		d.report(levelWarning, "priority", "priority is not a whole number.")
	}
	for _, name := range d.Env {
		if os.Getenv(name) == "" {
			d.report(levelWarning, "env", "The environment variable %s is not set.", name)
		}
	}
	if estimate(d.body) > skillBodyTokens {
		d.report(levelWarning, "", "Its text is longer than %d tokens; the rest is left out.", skillBodyTokens)
	}
}

// frontMatter decodes YAML. It rejects references, which could make a short text expand to a huge
// one.
func frontMatter(raw []byte) (out map[string]any, err error) {
	if len(raw) > maxFrontMatter {
		return nil, fmt.Errorf("it is longer than %d KiB", maxFrontMatter>>10)
	}
	if bytes.Count(raw, []byte("[")) > 200 || bytes.Count(raw, []byte("{")) > 200 {
		return nil, errors.New("it is nested too deeply")
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := checkFront(&doc, 0); err != nil {
		return nil, err
	}
	if err := doc.Decode(&out); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return out, nil
}

// checkFront refuses YAML features that front matter must not use.
func checkFront(n *yaml.Node, depth int) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || n.Tag == "!!merge" {
		return errors.New("it has references (& or *)")
	}
	if depth > maxFrontNesting {
		return errors.New("it is nested too deeply")
	}
	for _, c := range n.Content {
		if err := checkFront(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// readSkill reads the document of a folder below root.
func readSkill(root *os.Root, dir, folder string) *skillDoc {
	d := &skillDoc{}
	text, problem := readText(root, filepath.Join(filepath.FromSlash(dir), skillFile), maxSkillText)
	d.text = text
	if problem != "" {
		d.Name, d.Activation = folder, activationAuto
		d.report(levelError, "", "%s", problem)
	} else {
		d.parse(folder)
	}
	var def strings.Builder
	def.WriteString(d.text)
	err := fs.WalkDir(root.FS(), path.Clean(dir), func(name string, e fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(strings.TrimPrefix(name, path.Clean(dir)), "/")
		switch {
		case err != nil || rel == skillFile || rel == "":
			return err
		case e.IsDir() && strings.Count(rel, "/") >= maxSkillDepth:
			return fs.SkipDir
		case e.IsDir():
			return nil
		case !e.Type().IsRegular():
			d.report(levelWarning, "", "%s is a link or no file; it is not used.", rel)
			return nil
		case len(d.files) >= maxSkillFiles:
			return fmt.Errorf("it has more than %d files", maxSkillFiles)
		}
		sum, err := hashFile(root, name)
		if err == nil {
			d.files = append(d.files, rel)
			if len(d.files) == 1 {
				def.WriteString("\n\n--- Files ---")
			}
			def.WriteString("\n" + sum + "  " + rel)
		}
		return err
	})
	if err != nil {
		d.report(levelError, "", "Its files can't be read: %s.", err)
	}
	d.definition = def.String()
	sum := sha256.Sum256([]byte(d.definition))
	d.hash = hex.EncodeToString(sum[:])
	return d
}

func hashFile(root *os.Root, name string) (string, error) {
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, maxSkillFileSize+1))
	if err == nil && n > maxSkillFileSize {
		err = fmt.Errorf("%s is larger than 1 MiB", path.Base(name))
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// findSkills lists the documents below a folder, in the order of their paths. A missing folder has
// none.
func findSkills(folder, source string) (out []*skillDoc) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil
	}
	defer root.Close()
	folders := 0
	_ = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error { // unreadable folders have no documents
		switch {
		case err != nil:
			return fs.SkipDir
		case e.IsDir() && (strings.HasPrefix(path.Base(name), ".") && name != "." || strings.Count(name, "/") >= maxSkillDepth):
			return fs.SkipDir
		case e.IsDir():
			if folders++; folders > maxSkillFolders {
				return fs.SkipAll
			}
		case path.Base(name) == skillFile && name != skillFile:
			dir := path.Dir(name)
			d := readSkill(root, dir, path.Base(dir))
			d.source, d.path = source, filepath.Join(folder, filepath.FromSlash(dir))
			out = append(out, d)
			return fs.SkipDir // documents don't nest
		}
		return nil
	})
	return out
}
