package textmine

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var wednesday = time.Date(2024, 3, 6, 18, 30, 0, 0, time.UTC)

func TestDates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"We leave tomorrow.":                     "2024-03-07 2024-03-08",
		"It is due next Friday.":                 "2024-03-08 2024-03-09",
		"It was due last Friday.":                "2024-03-01 2024-03-02",
		"Come on Monday!":                        "2024-03-11 2024-03-12",
		"See you next Wednesday":                 "2024-03-13 2024-03-14",
		"We marry in May.":                       "2024-05-01 2024-06-01",
		"We marry in February.":                  "2025-02-01 2025-03-01",
		"I start in two weeks.":                  "2024-03-20 2024-03-21",
		"I start in a few days.":                 "2024-03-09 2024-03-10",
		"We met three days ago.":                 "2024-03-03 2024-03-04",
		"The exam is on May 3rd, I think.":       "2024-05-03 2024-05-04",
		"The exam was on the 3rd of May 2021.":   "2021-05-03 2021-05-04",
		"Due 2024-12-31.":                        "2024-12-31 2025-01-01",
		"I'll travel next month.":                "2024-04-01 2024-05-01",
		"I'll rest next week.":                   "2024-03-11 2024-03-18",
		"We bought it in 2019.":                  "2019-01-01 2020-01-01",
		"This summer we stay.":                   "2024-06-01 2024-09-01",
		"Ich fange in zwei Wochen an.":           "2024-03-20 2024-03-21",
		"Wir ziehen im Mai um.":                  "2024-05-01 2024-06-01",
		"May I come in? You may march on, I sat": "",
	} {
		var got []string
		for _, s := range Parse(text) {
			for _, d := range Dates(s, wednesday) {
				got = append(got, d.From.Format(time.DateOnly)+" "+d.To.Format(time.DateOnly))
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestDatesAreOfTheZoneOfTheText(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", -8*3600)
	d := Dates(Parse("I leave tomorrow.")[0], time.Date(2024, 3, 6, 23, 0, 0, 0, zone))
	if want := time.Date(2024, 3, 7, 0, 0, 0, 0, zone); len(d) != 1 || !d[0].From.Equal(want) {
		t.Errorf("%+v, want from %v", d, want)
	}
}

func TestWhatIsNoProspect(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"I don't want to move to Berlin.",
		"I never wanted to be a lawyer.",
		"I'm not planning to sell the house.",
		"I'm not afraid of spiders.",
		"He said \"I want to buy a boat\" and laughed.",
		"“I dream of Paris,” she wrote.",
		"> I plan to leave the company\nOk.",
		"Do you think I should learn Polish?",
		"If I want to learn Polish, I need a teacher.",
		"She thinks I should learn Polish.",
		"My brother wants to open a bar.",
		"You want to open a bar.",
		"I wanted to be a pilot back then.",
		"I don't think I want to study law.",
		"I'm afraid I can't come to the party.",
		"Must be hard to climb that mountain.",
		"Your friendship means a lot to me.",
		"I have to say, the soup was good.",
		"I want you.",
		"wishes, hopes and plans",
	} {
		if p, _ := Prospects(text, wednesday); len(p) > 0 {
			t.Errorf("%q: %+v", text, p)
		}
	}
}

func TestProspects(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"I want to learn Polish by next Friday, because of Ola.": "goal: learn Polish by next Friday due 2024-03-08",
		"We really do want to sail to Norway.":                   "goal: sail to Norway",
		"I moved out and plan to travel.":                        "goal: travel",
		"I must finally repair the roof.":                        "goal: repair the roof",
		"My biggest fear is losing my memory.":                   "fear: losing my memory",
		"The idea of flying scares me.":                          "fear: The idea of flying",
		"What if I lose the house?":                              "fear: lose the house",
		"Freedom is really important to me.":                     "value: Freedom",
		"Health matters more to me than money.":                  "value: Health",
		"I can see myself living in Lisbon.":                     "possible_self: living in Lisbon",
		"I want to become a better father.":                      "possible_self: a better father",
		"I'd love to visit Peru one day.":                        "aspiration: visit Peru one day",
		"Ich habe Angst vor der Prüfung.":                        "fear: der Prüfung",
	} {
		found, _ := Prospects(text, wednesday)
		var got []string
		for _, p := range found {
			s := fmt.Sprintf("%s: %s", p.Kind, p.Object)
			if p.Due != nil {
				s += " due " + p.Due.From.Format(time.DateOnly)
			}
			got = append(got, s)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestRelations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"She was always there for me.":             "support",
		"He encouraged me and I shouted at him.":   "support conflict",
		"We didn't argue once.":                    "",
		"They never supported me.":                 "",
		"\"I hate that you lied to me\", it said.": "",
		"I want to help you.":                      "",
		"Do they argue with you?":                  "",
		"An argumentative, comfortable chair.":     "",
		"We fought about the money again.":         "conflict",
		"He stopped talking to me.":                "conflict",
		"Wir haben gestritten.":                    "conflict",
	} {
		var got []string
		for _, r := range Relations(text) {
			got = append(got, string(r.Kind))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestPeople(t *testing.T) {
	t.Parallel()
	docs := []Doc{
		{Speaker: "Caroline", Text: "My sister Thea called. I told Thea about Kenia and the Tuesday market."},
		{Speaker: "Robert", Text: "How is your sister, Caro? And did Theodora Brandt, your boss, answer?"},
		{Speaker: "Caroline", Text: "My sister is fine. I met Brandt in Bremen; with Brandt it was fine, Bob."},
		{Speaker: "Robert", Text: "Good. My dog Rex bit Rex's vet in Bremen. My mom laughed, and Mom never laughs."},
	}
	var got []string
	for _, p := range People(docs, Corrections{Aliases: map[string]string{"theodora brandt": "Brandt"}}) {
		got = append(got, fmt.Sprintf("%s %v %s %d", p.Name, p.Aliases, p.Kinship, len(p.Mentions)))
	}
	want := []string{
		"Brandt [Theodora Brandt]  3", "Caroline [Caro]  1", "Caroline's boss [] boss 1", "Robert [Bob]  1",
		"Robert's mother [] mother 2", "Thea [Caroline's sister] sister 4",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	for _, p := range People(docs, Corrections{Ignore: []string{"thea", "Robert's mother"}}) {
		if p.Name == "Thea" || p.Kinship == "mother" {
			t.Errorf("ignored: %+v", p)
		}
	}
}

func TestPeopleDoNotDependOnTheOrderOfTexts(t *testing.T) {
	t.Parallel()
	for _, d := range dialogues(t) {
		names := func(docs []Doc) (out []string) {
			for _, p := range People(docs, Corrections{}) {
				out = append(out, fmt.Sprint(p.Name, p.Aliases, p.Kinship, len(p.Mentions)))
			}
			return out
		}
		want := names(d.docs)
		back := slices.Clone(d.docs)
		slices.Reverse(back)
		if got := names(back); !reflect.DeepEqual(got, want) {
			t.Errorf("dialogue %s: %q, want %q", d.name, got, want)
		}
	}
}

func TestTerms(t *testing.T) {
	t.Parallel()
	group := []Doc{
		{Text: "Marathon training in the rain. My knee hurts."},
		{Text: "The marathon training with Ada was long, the knee held."},
		{Text: "Ada planned my marathon training for May."},
	}
	all := append(slices.Clone(group), Doc{Text: "The train was late and the coffee cold."}, Doc{Text: "Coffee in the garden, rain later."}, Doc{Text: "A garden needs rain."})
	var got []string
	for _, term := range Terms(group, all, 3) {
		got = append(got, fmt.Sprintf("%s %d", term.Text, term.Docs))
	}
	if want := []string{"marathon training 3", "Ada 2", "knee 2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Terms(nil, all, 3); got != nil {
		t.Errorf("terms of nothing: %v", got)
	}
	for _, term := range Terms(group, all, 100) {
		for w := range strings.FieldsSeq(term.Text) {
			if IsStop(strings.ToLower(w)) {
				t.Errorf("%q has a stop word", term.Text)
			}
		}
	}
}

func TestTermsDoNotDependOnTheOrderOfTexts(t *testing.T) {
	t.Parallel()
	var docs []Doc
	for _, d := range dialogues(t) {
		docs = append(docs, d.docs...)
	}
	want := Terms(docs[:40], docs, 20)
	group, all := slices.Clone(docs[:40]), slices.Clone(docs)
	slices.Reverse(group)
	slices.Reverse(all)
	for range 5 {
		if got := Terms(group, all, 20); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\nwant %v", got, want)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	text := "My sister called last night. I want to visit her in May, but I'm afraid of flying. We argued about it with Tom."
	docs := []Doc{{Text: text}, {Text: text}}
	b.ReportAllocs()
	for b.Loop() {
		Prospects(text, wednesday)
		Relations(text)
		People(docs[:1], Corrections{})
		Terms(docs[:1], docs, 5)
	}
}
