package memory

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"helix/backend/memory/search"
)

const (
	maxContent  = 64 << 10
	maxTags     = 16
	maxTag      = 64 // characters
	maxMetadata = 64 << 10
	maxRef      = 4 << 10
)

var (
	memoryTypes = []string{"episodic", "semantic", "procedural"}
	sources     = []string{"manual", "note", "agent", "chatgpt", "claude", "markdown", "text", "jsonl", "locomo", "voice", "document", "tool"}
	foreign     = []string{"chatgpt", "claude", "markdown", "text", "jsonl", "locomo", "document", "tool"} // untrusted by default
)

// textHash returns the content_hash of a normalized text.
func textHash(text string) [32]byte { return sha256.Sum256([]byte(text)) }

func checkContent(field, text string) (string, error) {
	if len(text) > 2*maxContent { // NFC may shorten a text slightly
		return "", invalid(field, "Longer than 64 KiB: import it as a document")
	}
	text = search.NormalText(text)
	switch {
	case !strings.ContainsFunc(text, visible):
		return "", invalid(field, "Write something first")
	case len(text) > maxContent:
		return "", invalid(field, "Longer than 64 KiB: import it as a document")
	}
	return text, nil
}

// visible reports whether a rune is visible on its own. A byte order mark or a zero-width space is not.
func visible(r rune) bool {
	return !unicode.IsSpace(r) && !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r)
}

func checkType(field, typ string) error {
	if !slices.Contains(memoryTypes, typ) {
		return invalid(field, "%q is not a memory type. Use episodic, semantic or procedural.", clip(typ, 32))
	}
	return nil
}

func checkLayer(field string, layer int) error {
	if layer < 1 || layer > 7 {
		return invalid(field, "Layer %d does not exist. Layers are 1 to 7.", layer)
	}
	return nil
}

// tierSalience lists the tiers of salience and their values, highest first.
var tierSalience = []struct {
	tier  string
	value float64
}{{"critical", 100}, {"high", 75}, {"medium", 50}, {"low", 25}}

// salienceOf returns the value of a tier.
func salienceOf(field, tier string) (float64, error) {
	for _, t := range tierSalience {
		if t.tier == tier {
			return t.value, nil
		}
	}
	return 0, invalid(field, "%q is not a salience tier. Use critical, high, medium or low.", clip(tier, 32))
}

func checkValence(field string, v float64) error {
	if !(v >= -1 && v <= 1) {
		return invalid(field, "emotionalValence must be between -1 and 1.")
	}
	return nil
}

func checkTime(field string, t *time.Time) error {
	if t != nil && (t.UTC().Year() < 1 || t.UTC().Year() > 9999) { // the range that RFC 3339 can represent
		return invalid(field, "%s is not a date between the years 1 and 9999.", field)
	}
	return nil
}

// checkMetadata returns metadata as one compact JSON object; empty or null input becomes {}.
func checkMetadata(field string, raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 || string(bytes.TrimSpace(raw)) == "null" {
		return json.RawMessage("{}"), nil
	}
	if len(raw) > maxMetadata {
		return nil, invalid(field, "metadata is longer than 64 KiB.")
	}
	var buf bytes.Buffer
	if err := json.Compact(&buf, raw); err != nil || buf.Bytes()[0] != '{' {
		return nil, invalid(field, "metadata must be a JSON object.")
	}
	return buf.Bytes(), nil
}

// checkTags returns the tags normalized, sorted and without duplicates.
func checkTags(field string, tags []string) ([]string, error) {
	out := make([]string, 0, len(tags))
	for _, t := range tags {
		t = search.NormalTag(t)
		if t == "" || slices.Contains(out, t) {
			continue
		}
		if utf8.RuneCountInString(t) > maxTag {
			return nil, invalid(field, "The tag %q is longer than %d characters.", clip(t, 32), maxTag)
		}
		if len(out) == maxTags {
			return nil, invalid(field, "More than %d tags.", maxTags)
		}
		out = append(out, t)
	}
	slices.Sort(out)
	return out, nil
}
