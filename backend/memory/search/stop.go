package search

import "strings"

// stopWords lists English words that do not indicate the topic of a sentence: articles, pronouns,
// prepositions, auxiliaries and question words (Fox, A stop list for general text, 1989, shortened).
var stopWords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`
a about above after again against all also am an and any are aren as at be because been
before being below between both but by can cannot could couldn d did didn do does doesn
doing don down during each either else ever few for from further had hadn has hasn have
haven having he her here hers herself him himself his how i if in into is isn it its itself
just ll m ma me might mightn more most must mustn my myself need needn no nor not now o of
off on once only or other our ours ourselves out over own re s same shall shan she should
shouldn so some such t than that the their theirs them themselves then there these they
this those through to too under until up upon us ve very was wasn we were weren what when
where which while who whom whose why will with won would wouldn y you your yours yourself
yourselves`) {
		m[w] = true
	}
	return m
}()
