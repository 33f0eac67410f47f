package synthesis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A burst is not named after a single remark or an everyday word, but after a topic that
// several texts share.
func TestBurstsAreNamedByWhatTellsThemApart(t *testing.T) {
	t.Parallel()
	var texts []Text
	add := func(day int, bodies ...string) {
		for k, b := range bodies {
			at := monday.AddDate(0, 0, 3*day).Add(time.Duration(k) * time.Minute)
			texts = append(texts, Text{ID: fmt.Sprintf("%02d %02d", day, k), Kind: "memory", Body: b, At: at})
		}
	}
	for day := range 12 {
		if day == 6 {
			add(day, "The pottery kiln was hot, dear neighborhood", "Pottery kiln again, two bowls", "I glazed a vase for the pottery kiln", "Unpacked the pottery kiln with the neighborhood",
				"The accordion fell down", "The accordion was loud", "Rain on the roof", "A letter from the bank", "Soup with lentils", "The neighborhood came along")
			continue
		}
		add(day, "The neighborhood was quiet", "I swept the stairs")
	}
	a := newAnalysis(t.Context(), Input{Type: Full, Texts: texts})
	a.texts = make([]scored, len(texts))
	a.temporal()
	i := slices.IndexFunc(a.out.Patterns, func(p Pattern) bool { return len(p.Evidence) == 10 })
	if i < 0 {
		t.Fatal(a.out.Patterns)
	}
	if d := a.out.Patterns[i].Description; !strings.HasPrefix(d, "10 memories on 22 May 2026, 4 of them about *pottery kiln*") {
		t.Error(d)
	}
}

func TestObjectsKeepTheWordsThatTheyEndWith(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"I want to cook with friends to laugh with.":                  "cook with friends to laugh with",
		"I want to think about life after basketball.":                "think about life after basketball",
		"I want to finish the boat before we move.":                   "finish the boat",
		"I'm working on one with my group called \"The Lighthouse\".": "working on one with my group",
	} {
		s := sentences(text)
		if st, ok := readStatement(s[0]); !ok || st.object != want {
			t.Errorf("%s: %v %q", text, ok, st.object)
		}
	}
}
