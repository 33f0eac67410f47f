package cloudsync

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/cloudsync/hubtest"
	"helix/backend/fault"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

// replica is a device of the storm. Its data can be replaced by an older copy.
type replica struct {
	*device
	path  string
	root  *storagetest.Root
	site  int64
	stash []remote // earlier entries of the feed

	// unsure is the epoch of restored data, until the hub has answered whether it is still the same
	// device. waiting are the edits made until then.
	unsure  string
	waiting []*edit

	life, made int
	past       map[int]int // for earlier lives: how many of their edits this data includes
	edits      []*edit

	copied struct {
		data       []byte
		edits      []*edit
		life, made int
		past       map[int]int
	}
}

type storm struct {
	t          *testing.T
	r          *rand.Rand
	server     *hubtest.Server
	proxy      *hubtest.Proxy
	dsn        string // of the hub's administrator
	replicas   []*replica
	rows       []*modelRow
	byID       map[uuid.UUID]*modelRow
	byTable    map[string][]*modelRow
	forms      map[string]map[string]string // by table and column
	lives      int
	burst      int // edits of one step
	operations int
	exchanges  int
	did        map[string]int
}

func unmarshalText(text string, v any) error { return json.Unmarshal([]byte(text), v) }

func (s *storm) newReplica() *replica {
	s.t.Helper()
	x := &replica{path: filepath.Join(s.t.TempDir(), "helix.db"), root: storagetest.NewRoot(), life: s.lives}
	s.lives++
	storagetest.Blank(s.t, x.path)
	x.start(s.t)
	return x
}

// start opens the data of the replica, like a new process.
func (x *replica) start(t testing.TB) {
	t.Helper()
	db, err := storage.Open(t.Context(), storage.Options{Path: x.path, Keys: storage.NewKeys(x.root)})
	if err != nil {
		t.Fatal(err)
	}
	x.device = &device{Service: New(db, storage.NewSecrets(db), Options{Version: "test"}), t: t}
	x.identify()
	if x.life%2 == 1 { // every second replica sends all new rows in batches
		x.manyFresh = 1
	}
	x.load()
}

func (x *replica) stop() {
	x.t.Helper()
	if err := x.Close(); err != nil {
		x.t.Logf("close: %v", err) // the connection may be broken
	}
	if err := x.db.Close(); err != nil {
		x.t.Fatal(err)
	}
}

// settle runs exchanges of all replicas until nothing is left to send.
func (s *storm) settle() {
	s.t.Helper()
	for range 4 {
		for _, x := range s.replicas {
			for range 5 {
				if _, err := x.Coordinate(x.ctx, CoordinateParams{}); err == nil {
					break
				} else if !fault.Is(err, fault.Unavailable) {
					s.t.Fatalf("%v: %v", err, fault.As(err).Err)
				}
			}
			s.seen(x)
		}
	}
}

// TestStorm lets five replicas change rows of all synced tables at random: offline most of the
// time, over connections that break, with a hub that is killed, repeated and reordered delivery,
// clock jumps, restored copies, removed devices, and devices and a hub that are upgraded at different
// times. At the end, all replicas must match the model.
// HELIX_STORM sets the number of steps, HELIX_STORM_BURST how many edits follow one another, and
// HELIX_STORM_SEED the seed (make storm).
func TestStorm(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	steps, seed := 1000, uint64(1)
	if n, err := strconv.Atoi(os.Getenv("HELIX_STORM")); err == nil {
		steps = n
	}
	if n, err := strconv.ParseUint(os.Getenv("HELIX_STORM_SEED"), 10, 64); err == nil {
		seed = n
	}
	burst, _ := strconv.Atoi(os.Getenv("HELIX_STORM_BURST"))
	s := &storm{t: t, burst: max(burst, 1), r: rand.New(rand.NewPCG(seed, 7)), server: hubtest.New(t), byID: map[uuid.UUID]*modelRow{}, byTable: map[string][]*modelRow{}, forms: map[string]map[string]string{}, did: map[string]int{}}
	s.proxy = hubtest.NewProxy(t, s.server.Port())
	c := must[*pgx.ConnConfig](t)(pgx.ParseConfig(s.server.DSN("postgres")))
	s.dsn = s.server.DSN(c.Database)
	dsn := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.proxy.Port(), c.Database)
	for range 5 {
		x := s.newReplica()
		if len(s.replicas) == 0 {
			x.setUp(dsn)
		} else {
			x.join(s.replicas[0].device)
		}
		s.seen(x)
		s.replicas = append(s.replicas, x)
	}
	defer func() {
		for _, x := range s.replicas {
			x.stop()
		}
	}()
	begin := time.Now()
	for done := 0; done < steps && !t.Failed(); {
		// A check takes longer the more was done before, so it comes whenever that has doubled.
		round := min(max(done, 5000), steps-done)
		for range round {
			s.step()
		}
		done += round
		s.upgradeAll()
		s.settle()
		var devices []*device
		for _, x := range s.replicas {
			if n := one[int](x.device, `SELECT (SELECT count(*) FROM sync_outbox) + (SELECT count(*) FROM change_log) + (SELECT count(*) FROM sync_base)`); n != 0 {
				t.Errorf("%d changes are left", n)
			}
			x.noDeadLetters()
			devices = append(devices, x.device)
		}
		same(t, devices...)
		s.check(t)
		took := time.Since(begin)
		t.Logf("seed %d: %d steps, %d edits of %d rows, %d exchanges, %d conflicts, %v, %.0f steps/s", seed, done, s.operations, len(s.rows), s.exchanges,
			one[int](devices[0], `SELECT count(*) FROM sync_conflicts`), s.did, float64(done)/took.Seconds())
	}
}
