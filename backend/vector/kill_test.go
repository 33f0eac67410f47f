package vector

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"helix/backend/testkit"
)

const killEnv = "HELIX_VECTOR_KILL_DIR"

// A process that adds, replaces, removes and flushes is killed at some moment. Everything
// acknowledged is there afterwards, and the step in progress is either done or not.
func TestKilledProcess(t *testing.T) {
	testkit.SkipRaced(t, "a process of the test has no time for anything")
	if dir := os.Getenv(killEnv); dir != "" {
		killChild(dir)
		return
	}
	t.Parallel()
	rounds := 6
	if os.Getenv("HELIX_LONG") == "1" {
		rounds = 200
	}
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	m := map[uint32]uint64{} // id to tag
	for round := range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledProcess$", "-test.count=1")
		cmd.Env = append(os.Environ(), killEnv+"="+dir, fmt.Sprintf("HELIX_VECTOR_SEED=%d", round))
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		steps := 1 + r.IntN(600)
		under := map[uint32]uint64{} // the step in progress: id to tag, 0 for a removal
		killed := false
		for lines.Scan() {
			var id uint32
			var tag uint64
			switch n, _ := fmt.Sscanf(lines.Text(), "begin %d %d", &id, &tag); {
			case n == 2:
				under[id] = tag
			case lines.Text() == "done":
				for id, tag := range under {
					if m[id] = tag; tag == 0 {
						delete(m, id)
					}
				}
				clear(under)
				if steps--; steps == 0 && !killed {
					killed = true
					must(t, cmd.Process.Kill())
				}
			}
		}
		if err := cmd.Wait(); !killed {
			t.Fatalf("round %d: the child ended by itself: %v", round, err)
		}
		ix := open(t, dir, killDims)
		if st := ix.Stats(); st.Rebuilt != "" {
			t.Fatalf("round %d: rebuilt: %s", round, st.Rebuilt)
		}
		for id, tag := range under { // done or not: both are valid
			if got, ok := ix.Tag(id); ok == (tag != 0) && got == tag {
				if m[id] = tag; tag == 0 {
					delete(m, id)
				}
			}
		}
		if ix.Len() != len(m) {
			t.Fatalf("round %d: %d vectors, want %d", round, ix.Len(), len(m))
		}
		for id, tag := range m {
			got, ok := ix.Tag(id)
			v, there := ix.Vector(id, nil)
			if !ok || !there || got != tag || cosine(v, killVector(id, tag)) < 1-1e-9 {
				t.Fatalf("round %d: vector %d has tag %d, want %d (%v, %v)", round, id, got, tag, ok, there)
			}
		}
		abandon(ix)
	}
}

const killDims = 200

func killVector(id uint32, tag uint64) []float32 {
	s := source{r: rand.New(rand.NewPCG(uint64(id), tag)), dims: killDims}
	return s.vector()
}

// killChild works until it is killed, and reports each step before and after.
func killChild(dir string) {
	ix, err := Open(dir, killDims, testModel)
	if err != nil {
		fmt.Println(err)
		return
	}
	var seed uint64
	fmt.Sscan(os.Getenv("HELIX_VECTOR_SEED"), &seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for range 100_000 {
		var err error
		switch op := r.IntN(12); {
		case op < 6:
			id, tag := r.Uint32N(900), 1+r.Uint64N(1<<40)
			fmt.Println("begin", id, tag)
			err = ix.Add(id, tag, killVector(id, tag))
		case op < 8:
			batch := make([]Vector, 1+r.IntN(90))
			for i := range batch {
				id, tag := uint32(1000+r.IntN(50)*100+i), 1+r.Uint64N(1<<40)
				batch[i] = Vector{ID: id, Tag: tag, Values: killVector(id, tag)}
				fmt.Println("begin", id, tag)
			}
			err = ix.AddBatch(batch)
		case op < 11:
			id := r.Uint32N(900)
			fmt.Println("begin", id, 0)
			err = ix.Remove(id)
		default:
			err = ix.Flush()
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("done")
	}
}
