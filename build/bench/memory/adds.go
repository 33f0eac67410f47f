package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"helix/backend/memory"
	"helixbench/figures"
)

// addsWindow is the number of adds that are compared at each end.
const addsWindow = 5000

// measureAdds stores n memories one by one in a database on disk, each in a separate transaction,
// and compares the rate of the last ones with that of the first ones.
func measureAdds(c *corpus, n int) {
	dir, err := os.MkdirTemp("", "helix-bench-memory-")
	figures.Check(err)
	defer os.RemoveAll(dir)
	s := openService(c, dir)
	defer s.close()
	stop := profileTo(*addsProfile)
	defer stop()
	rng := rand.New(rand.NewPCG(1, 2))
	var rates []float64
	start := time.Now()
	for i := range n {
		_, err := s.mem.Add(s.ctx, memory.AddParams{Content: sentence(rng, i), Tags: []string{fmt.Sprintf("topic-%d", i%50)}})
		figures.Check(err)
		if (i+1)%addsWindow == 0 {
			rates = append(rates, addsWindow/time.Since(start).Seconds())
			start = time.Now()
		}
	}
	for i, r := range rates {
		figures.Print(fmt.Sprintf("memory.add.to%dk", (i+1)*addsWindow/1000), r, "adds/s", 0, "")
	}
	figures.Print("memory.add.flat", rates[len(rates)-1]/rates[0], "last/first 5,000", 0, "")
}

// sentence returns text number i: no two are equal, and words repeat as in a natural language.
func sentence(rng *rand.Rand, i int) string {
	words := make([]string, 12+rng.IntN(12))
	for j := range words {
		f := rng.Float64()
		words[j] = fmt.Sprintf("word%d", int(20000*f*f*f))
	}
	return fmt.Sprintf("%s, entry %d", strings.Join(words, " "), i)
}
