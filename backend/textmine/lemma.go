package textmine

import "strings"

// irregular are the commonest forms that no ending explains.
var irregular = pairs(`went go gone go goes go did do done do does do was be were be is be are be am be been be being be
has have had have having have made make making make got get gotten get getting get said say says say told tell felt feel
thought think took take taken take came come knew know known know gave give given give found find left leave
kept keep met meet ran run running run began begin begun begin bought buy brought bring taught teach caught catch
wrote write written write writing write spoke speak spoken speak broke break broken break chose choose chosen choose
drove drive driven drive ate eat eaten eat fell fall fallen fall grew grow grown grow lost lose paid pay sent send
slept sleep spent spend stood stand swam swim won win wore wear sat sit sang sing heard hear held hold led lead
lent lend meant mean hung hang fought fight lied lie lying lie dying die tying tie built build dealt deal
saw see seen see children child kids kid men man women woman people people feet foot teeth tooth mice mouse
wives wife lives life knives knife leaves leave better good best good worse bad worst bad stopped stop planning plan
planned plan agreed agree disagreed disagree swimming swim sitting sit hitting hit cutting cut putting put shopping shop`)

func pairs(text string) map[string]string {
	f := strings.Fields(text)
	out := map[string]string{}
	for i := 0; i+1 < len(f); i += 2 {
		out[f[i]] = f[i+1]
	}
	return out
}

// Lemma brings a word in lower case to the form that its inflections share: plurals, -ed and -ing.
// It is light: words of one stem may keep several forms.
func Lemma(w string) string {
	w = strings.TrimSuffix(strings.TrimSuffix(w, "'s"), "'")
	if l, ok := irregular[w]; ok {
		return l
	}
	n := len(w)
	switch {
	case n > 4 && strings.HasSuffix(w, "ies"):
		return w[:n-3] + "y"
	case n > 4 && (strings.HasSuffix(w, "sses") || strings.HasSuffix(w, "shes") || strings.HasSuffix(w, "ches") || strings.HasSuffix(w, "xes") || strings.HasSuffix(w, "zes")):
		return w[:n-2]
	case n > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && !strings.HasSuffix(w, "is"):
		return w[:n-1]
	case n > 4 && strings.HasSuffix(w, "ied"):
		return w[:n-3] + "y"
	case n > 5 && strings.HasSuffix(w, "ing") && hasVowel(w[:n-3]):
		return stem(w[:n-3])
	case n > 4 && strings.HasSuffix(w, "ed") && hasVowel(w[:n-2]):
		return stem(w[:n-2])
	}
	return w
}

func hasVowel(w string) bool { return strings.ContainsAny(w, "aeiouy") }

// stem undoes what -ed and -ing do to the end of a word: hoped, running.
func stem(w string) string {
	n := len(w)
	if n < 3 {
		return w
	}
	last, before, third := w[n-1], w[n-2], w[n-3]
	vowel := func(c byte) bool { return strings.IndexByte("aeiou", c) >= 0 }
	switch {
	case last == before && !vowel(last) && strings.IndexByte("lsz", last) < 0:
		return w[:n-1]
	case strings.HasSuffix(w, "at") || strings.HasSuffix(w, "iz") || strings.HasSuffix(w, "bl") || strings.HasSuffix(w, "iv") || last == 'v' || last == 'c' || last == 'u' || last == 'g' && before != 'n':
		return w + "e"
	case n == 3 && !vowel(last) && vowel(before) && !vowel(third) && strings.IndexByte("wxy", last) < 0:
		return w + "e" // hop-ed, bik-ing
	case n > 3 && !vowel(last) && vowel(before) && !vowel(third) && strings.IndexByte("rpsmkzd", last) >= 0 && before != 'e' && strings.IndexByte("aiou", before) >= 0 && last != 'd':
		return w + "e" // writ-ing, compar-ing, promis-ed
	}
	return w
}

// stopWords say nothing about a topic.
var stopWords = set(`a about above actually after again against ago all almost along already also although always am an and another any
anybody anyone anything anyway are around as at away back bad be became because become been before began behind being below best better
between big bit both but by came can come could couple cool day days definitely did do does doing done down during each either else end
enough especially etc even ever every everybody everyone everything exactly few find first for from full further gave get give go going
gone gonna good got gotta great guess had half happen hardly has have having he hello help hey her here hers herself hi him himself his
hope how however i if in indeed instead into is it its itself just keep kind kinda knew know last lately later least less let life like little
long look lot lots love made mainly make makes making many may maybe me mean means might mine moment more most much must my myself name
near need never new next nice no nobody none nor not nothing now of off often oh ok okay old on once one only onto or other others our
ours ourselves out over own part people perhaps place please pretty probably put quite rather real really recently remember right said same
saw say says see seem seemed seems seen several shall she should show since so some somebody someone something sometimes somewhere soon sort
sorry start still stuff such super sure take talk tell than thank thanks that the their theirs them themselves then there these they thing
things think this those though thought three through time times to today together told tomorrow tonight too took totally toward towards
tried truly try turn two under until up upon us use used usually very via wait want was way we week weeks well went were what whatever when where
whether which while who whole whom whose why will wish with within without wonder wonderful work would wow yeah year years yep yes yesterday
yet you your yours yourself amazing awesome glad happy feel feeling felt fun excited sounds sound able
month months morning evening night hour hours minute minutes haha hear heard keep kept live lately bring brought
aber als also am an auch auf aus bei bin bis bist da damit dann das dass dein deine dem den der des die dies diese dir doch du
ein eine einem einen einer er es euch für ganz gar hab habe haben hat hatte ich ihm ihn ihr im immer in ist ja jetzt kann
kein keine mal man mein meine mich mir mit nach nicht noch nur oder ohne schon sehr sein seine sich sie sind so über um und uns
unser vom von vor war warum was wenn wer wie wieder will wir wird wo zu zum zur`)

// IsStop reports whether a word in lower case says nothing about a topic.
func IsStop(w string) bool { return stopWords[w] || stopWords[Lemma(w)] }
