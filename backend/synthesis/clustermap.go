package synthesis

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

const (
	maxMap     = 5000
	defaultMap = 1000
	labelRunes = 80
	axesSample = 1000
	keptMaps   = 4 // the newest, of all users
)

// ClusterMap projects the newest texts onto a plane, their first two principal components, and
// assigns each to its topic. Maps are cached while the texts do not change.
func (s *Service) ClusterMap(ctx context.Context, p MapParams) (MapResult, error) {
	out := MapResult{Points: []MapPoint{}, Clusters: []MapCluster{}}
	if p.Limit == 0 {
		p.Limit = defaultMap
	}
	if p.Limit < 1 || p.Limit > maxMap {
		return out, fault.InvalidField("limit", fault.CodeRange, "limit is %d; it must be 1 to %d.", p.Limit, maxMap)
	}
	sp := SynthesizeParams{Limit: p.Limit}
	if p.Filters != nil {
		sp.TimeRange = &TimeRange{Start: p.Filters.From, End: p.Filters.To}
	}
	texts, _, err := s.load(ctx, sp)
	if err != nil {
		return out, err
	}
	sortTexts(texts)
	in := Input{Type: Full, Texts: texts, Zone: s.zone()}
	if err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		in.Names, err = s.corrections(tx, identity.UserID(ctx))
		return err
	}); err != nil {
		return out, err
	}
	key := mapKey(in)
	if known, ok := s.maps.Get(key); ok {
		return known, nil
	}
	a := newAnalysis(ctx, in)
	a.texts = make([]scored, len(texts))
	topics := a.topics()
	if a.err != nil {
		return out, a.err
	}
	cluster := make(map[int]int)
	for c, g := range topics {
		for _, m := range g.members {
			cluster[m] = c
		}
		out.Clusters = append(out.Clusters, MapCluster{ID: c, Label: g.name, Size: len(g.members), Cohesion: round(min(1, g.parts["cohesion"]))})
	}
	var vectors [][]float32
	for i, t := range texts {
		if len(t.Vector) == 0 || len(vectors) > 0 && len(t.Vector) != len(vectors[0]) {
			out.Skipped++
			continue
		}
		c, ok := cluster[i]
		if !ok {
			c = -1
		}
		vectors = append(vectors, t.Vector)
		out.Points = append(out.Points, MapPoint{ID: t.ID, Kind: t.Kind, ParentID: t.Parent, Label: excerpt(t.Body, labelRunes), Cluster: c})
	}
	x, y := plane(vectors)
	for i := range out.Points {
		out.Points[i].X, out.Points[i].Y = round(x[i]), round(y[i])
	}
	s.maps.Put(key, out)
	return out, nil
}

// mapKey returns the cache key for the input of a map.
func mapKey(in Input) (key [sha256.Size]byte) {
	h := sha256.New()
	var n [8]byte
	put := func(parts ...string) {
		for _, p := range parts {
			binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
			h.Write(n[:])
			h.Write([]byte(p))
		}
	}
	for _, a := range in.Names {
		put(a.Name, a.Person)
	}
	put("texts")
	var vector []byte
	for _, t := range in.Texts {
		vector = vector[:0]
		for _, f := range t.Vector {
			vector = binary.LittleEndian.AppendUint32(vector, math.Float32bits(f))
		}
		put(t.ID, t.Kind, t.Parent, t.Speaker, t.Body, string(vector))
	}
	return [sha256.Size]byte(h.Sum(key[:0]))
}

// plane returns the coordinates of vectors on the two principal components of a sample of at most
// axesSample of them, scaled to -1 to 1. The components are computed by power iteration. Sample and
// start are seeded.
func plane(vectors [][]float32) (x, y []float64) {
	n := len(vectors)
	x, y = make([]float64, n), make([]float64, n)
	if n < 2 {
		return x, y
	}
	dim := len(vectors[0])
	center := make([]float64, dim)
	for _, v := range vectors {
		for k, f := range v {
			center[k] += float64(f) / float64(n)
		}
	}
	rng := rand.New(rand.NewPCG(clusterSeed, 3)) //nolint:gosec // a seeded start, not a secret
	var sample [][]float64                       // centered
	for _, i := range rng.Perm(n)[:min(n, axesSample)] {
		s := make([]float64, dim)
		for k, f := range vectors[i] {
			s[k] = float64(f) - center[k]
		}
		sample = append(sample, s)
	}
	var axes [][]float64
	for _, out := range [][]float64{x, y} {
		axis := make([]float64, dim)
		for k := range axis {
			axis[k] = rng.NormFloat64()
		}
		for range 30 {
			next := make([]float64, dim)
			for _, v := range sample {
				d := product(v, axis)
				for k, f := range v {
					next[k] += d * f
				}
			}
			for _, other := range axes { // orthogonal to the first
				d := product(next, other)
				for k := range next {
					next[k] -= d * other[k]
				}
			}
			norm := math.Sqrt(product(next, next))
			if norm == 0 {
				break
			}
			for k := range next {
				axis[k] = next[k] / norm
			}
		}
		axes = append(axes, axis)
		most := 0.0
		for i, v := range vectors {
			for k, f := range v {
				out[i] += (float64(f) - center[k]) * axis[k]
			}
			most = max(most, math.Abs(out[i]))
		}
		for i := range out {
			if most > 0 {
				out[i] /= most
			}
		}
	}
	return x, y
}

// product returns the dot product of two vectors, summed in a fixed order in four accumulators.
func product(a, b []float64) float64 {
	var s [4]float64
	b = b[:len(a)]
	for len(a) >= 4 {
		s[0] += a[0] * b[0]
		s[1] += a[1] * b[1]
		s[2] += a[2] * b[2]
		s[3] += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	for k, f := range a {
		s[0] += f * b[k]
	}
	return s[0] + s[1] + s[2] + s[3]
}
