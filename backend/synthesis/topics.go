package synthesis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"helix/backend/cluster"
)

const (
	minPoints     = 3
	defaultEps    = 0.25
	leastEps      = 0.10
	mostEps       = 0.45
	kneeFrom      = 50 // number of texts from which on the distance is derived from the data
	densitySample = 500
	uneven        = 3 // ratio to the density of a tenth of the texts
	topicSize     = 5 // minimum size of a topic found by density
	leastTokens   = 3 // texts with fewer meaningful words are small talk
	clusterSeed   = 0x68656c6978
)

// group is a topic: texts of similar meaning.
type group struct {
	key        string // its identity: the first terms in alphabetical order
	name       string
	terms      []string
	members    []int
	weights    []float64 // cosines to the centroid
	confidence float64
	parts      map[string]float64
}

// grouping holds the topics of all texts.
type grouping struct {
	list    []group
	skipped int // number of texts without a vector of the model
}

// topics clusters the texts by meaning, once.
func (a *analysis) topics() []group {
	if a.groups == nil {
		a.groups = &grouping{}
		a.err = a.cluster()
	}
	return a.groups.list
}

func (a *analysis) cluster() error {
	var vectors [][]float32
	var texts []int
	dims := map[int]int{}
	for _, t := range a.in.Texts {
		dims[len(t.Vector)]++
	}
	dim, most := 0, 0
	for d, n := range dims { // the most frequent length, the longest of equals
		if d > 0 && (n > most || n == most && d > dim) {
			dim, most = d, n
		}
	}
	for i, t := range a.in.Texts {
		if len(t.Vector) != dim || dim == 0 || slices.ContainsFunc(t.Vector, func(f float32) bool { return math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) }) {
			a.groups.skipped++
			continue
		}
		if len(a.words().texts[i]) < leastTokens {
			continue
		}
		vectors, texts = append(vectors, t.Vector), append(texts, i)
	}
	if a.groups.skipped > 0 {
		a.out.Warnings = append(a.out.Warnings, fmt.Sprintf("%s left out of the topics: not embedded yet, or by another model.", count(a.groups.skipped, "text was", "texts were")))
	}
	if len(vectors) < minPoints {
		return nil
	}
	points, again, labels, err := a.partition(vectors)
	if err != nil {
		return err
	}
	a.progress("semantic", 0.55)
	stable, err := cluster.Stability(a.ctx, labels, clusterSeed, again)
	if err != nil {
		return err
	}
	a.progress("semantic", 0.65)
	quality, base := points.Measure(labels), points.Baseline(clusterSeed)
	for c, members := range cluster.Members(labels) {
		g := group{members: make([]int, len(members)), weights: points.Weights(members)}
		for k, m := range members {
			g.members[k] = texts[m]
		}
		g.terms = a.terms(g.members, 3)
		if len(g.terms) == 0 || a.in.Themes == 0 && a.words().byChance(g.members) {
			continue // what the texts share has no name, or they share it by chance
		}
		g.name = strings.Join(g.terms, ", ")
		key := make([]string, len(g.terms))
		for i, t := range g.terms {
			key[i] = strings.ToLower(t)
		}
		slices.Sort(key)
		g.key = strings.Join(key, " ")
		s := max(0, quality[c].Silhouette)
		cohesion := max(0, (quality[c].Cohesion-base)/(1-base))
		if len(quality) == 1 {
			s = cohesion
		}
		g.confidence = 0.4*s + 0.4*cohesion + 0.2*stable[c]
		g.parts = map[string]float64{"size": float64(len(members)), "separation": s, "cohesion": cohesion, "stability": stable[c]}
		a.groups.list = append(a.groups.list, g)
	}
	return nil
}

// partition clusters vectors with k-means if the person requested a number of topics, else with
// DBSCAN, or with HDBSCAN if their density varies strongly. again clusters a part of them. From 50
// texts on it first subtracts the mean of all vectors, because what all vectors of an encoder have
// in common carries no information (Mu and Viswanath 2018).
func (a *analysis) partition(vectors [][]float32) (points *cluster.Points, again func([]bool) []int, labels []int, err error) {
	eps := defaultEps
	if k := a.in.Themes; k > 0 {
		points = cluster.New(centered(vectors))
		again = func(in []bool) []int {
			labels, kerr := points.KMeans(a.ctx, k, 3, clusterSeed, in)
			if kerr != nil { // canceled: the caller checks the context
				err = kerr
			}
			return labels
		}
		labels = again(nil)
		return points, again, labels, err
	}
	if len(vectors) < kneeFrom {
		points = cluster.New(vectors)
	} else {
		points = cluster.New(centered(vectors))
		curve, err := points.KDistance(a.ctx, minPoints, densitySample)
		if err != nil {
			return nil, nil, nil, err
		}
		eps = min(mostEps, max(leastEps, cluster.Knee(curve)))
		density, err := points.Density(a.ctx, eps, densitySample)
		if err != nil {
			return nil, nil, nil, err
		}
		if quantile(density, 0.9) > uneven*max(1, quantile(density, 0.1)) {
			near, err := points.Nearest(a.ctx)
			if err != nil {
				return nil, nil, nil, err
			}
			again = func(in []bool) []int { return near.HDBSCAN(topicSize, minPoints, in) }
		}
	}
	if again == nil {
		graph, err := points.Near(a.ctx, eps)
		if err != nil {
			return nil, nil, nil, err
		}
		again = func(in []bool) []int { return graph.DBSCAN(minPoints, in) }
	}
	return points, again, again(nil), nil
}

// centered returns the vectors minus their mean, normalized to unit length.
func centered(vectors [][]float32) [][]float32 {
	mean := make([]float64, len(vectors[0]))
	for _, v := range vectors {
		for k, f := range v {
			mean[k] += float64(f)
		}
	}
	out := make([][]float32, len(vectors))
	for i, v := range vectors {
		out[i] = make([]float32, len(v))
		for k, f := range v {
			out[i][k] = f - float32(mean[k]/float64(len(vectors)))
		}
	}
	return out
}

// semantic reports the topics.
func (a *analysis) semantic() {
	for _, g := range a.topics() {
		mood, _ := a.meanValence(g.members)
		g.parts["mood"] = mood - a.usual
		first, last := a.in.Texts[g.members[0]].At, a.in.Texts[g.members[len(g.members)-1]].At
		a.add(finding{
			typ: "semantic_cluster", core: g.key, subjects: g.terms, members: g.members, weights: g.weights,
			description: fmt.Sprintf("%s%s %s%s", a.number(g.members), about(g.terms), a.span(first, last), a.mood(g.members)),
			confidence:  g.confidence, parts: g.parts, series: a.perMonth(g.members),
		})
	}
}
