package config

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"helix/backend/fault"
)

// Variable is an environment variable that Helix reads.
type Variable struct {
	Name   string
	Key    string // the setting it sets, or ""
	Secret bool
	Unread bool // reserved for a part that this version does not have
	Help   string
}

// others are the variables that are not settings.
var others = []Variable{
	{Name: "HELIX_PROJECT_DIR", Help: "Folder with your own files: soul, psychology, skills."},
	{Name: "HELIX_KEY_PASSPHRASE", Secret: true, Help: "Passphrase of the key file, where there is no keyring."},
	{Name: "SUPABASE_URL", Unread: true, Help: "Address of the hub; read by helix sync setup."},
	{Name: "SUPABASE_ANON_KEY", Secret: true, Unread: true, Help: "Public key of the hub; read by helix sync setup."},
	{Name: "SUPABASE_DB_URL", Secret: true, Unread: true, Help: "Database of the hub; read only by helix sync setup."},
	{Name: "DEEPGRAM_API_KEY", Secret: true, Unread: true, Help: "Key of the transcription service."},
	{Name: "ANTHROPIC_API_KEY", Secret: true, Help: "Key of a model provider."},
	{Name: "OPENAI_API_KEY", Secret: true, Help: "Key of a model provider."},
	{Name: "GEMINI_API_KEY", Secret: true, Help: "Key of a model provider."},
	{Name: "GOOGLE_API_KEY", Secret: true, Help: "Key of a model provider."},
	{Name: "MISTRAL_API_KEY", Secret: true, Help: "Key of a model provider."},
	{Name: "GROQ_API_KEY", Secret: true, Help: "Key of a model provider."},
	{Name: "DEEPSEEK_API_KEY", Secret: true, Help: "Key of a model provider."},
	{Name: "OPENROUTER_API_KEY", Secret: true, Help: "Key of a model provider."},
	{Name: "XAI_API_KEY", Secret: true, Help: "Key of a model provider."},
}

// envAliases are additional variables of a setting, highest priority first.
var envAliases = map[string][]string{"log.level": {"HELIX_LOG", "RUST_LOG"}}

// known returns all variables, those of settings first.
var known = sync.OnceValue(func() []Variable {
	var out []Variable
	for _, s := range settings() {
		for _, name := range append([]string{s.Env}, envAliases[s.Key]...) {
			out = append(out, Variable{Name: name, Key: s.Key, Help: s.Help})
		}
	}
	return append(out, others...)
})

// Variables returns every environment variable that Helix reads.
func Variables() []Variable { return slices.Clone(known()) }

func isKnown(name string) bool {
	return slices.ContainsFunc(known(), func(v Variable) bool { return v.Name == name })
}

// Nearest returns the known setting whose key is most similar to key, or "" if none is close.
func Nearest(key string) string {
	best, at := "", len(key)/3+2
	for _, s := range settings() {
		if d := distance(fold(key), fold(s.Key)); d < at {
			best, at = s.Key, d
		}
	}
	if best == "" { // the right name in the wrong section, or without one
		_, name, _ := strings.Cut(key, ".")
		for _, s := range settings() {
			_, n, _ := strings.Cut(s.Key, ".")
			if fold(n) == fold(name) || fold(n) == fold(key) {
				return s.Key
			}
		}
	}
	return best
}

func nearestEnv(name string) string {
	best, at := "", len(name)/3
	for _, v := range known() {
		if d := distance(name, v.Name); d < at {
			best, at = v.Name, d
		}
	}
	if best == "" {
		return ""
	}
	return "Did you mean " + best + "?"
}

func hint(key string) string {
	if n := Nearest(key); n != "" {
		return "Did you mean " + n + "?"
	}
	return "Remove it."
}

func unknownKey(key string) error {
	msg := "Unknown setting " + key + "."
	if n := Nearest(key); n != "" {
		msg += " Did you mean " + n + "?"
	}
	return fault.Invalidf("%s", msg).WithDetails(map[string]string{"key": key, "nearest": Nearest(key)})
}

// distance returns the Levenshtein distance, in which a swap of neighbors counts as one edit.
func distance(a, b string) int {
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}

// positionOf returns the position of an error of decodeTOML; 0, 0 if unknown.
func positionOf(err error) (line, column int) {
	var f *fault.Error
	if errors.As(err, &f) {
		if d, ok := f.Details.(map[string]int); ok {
			return d["line"], d["column"]
		}
	}
	return 0, 0
}
