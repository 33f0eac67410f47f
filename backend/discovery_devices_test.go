package backend

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/cloudsync"
	"helix/backend/cloudsync/hubtest"
	"helix/backend/discovery"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/storage"
)

// A tool travels to the other devices of its user. Its approval and its credentials don't; what denies it
// does, and ends its runs there.
func TestToolNeedsAnApprovalOnEachDevice(t *testing.T) {
	t.Parallel()
	a, b := newChain(t), newChain(t)
	begun := make(chan struct{}, 1)
	a.served = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			begun <- struct{}{}
			<-r.Context().Done()
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `[]`)
	}
	if _, err := a.Sync.Setup(a.ctx, cloudsync.SetupParams{AdminDSN: hubtest.Database(t)}); err != nil {
		t.Fatal(err)
	}
	a.ctx = a.as(a.LocalUser())
	invited, err := a.Sync.Invite(a.ctx, cloudsync.InviteParams{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Sync.Enroll(b.ctx, cloudsync.EnrollParams{Code: invited.Link}); err != nil {
		t.Fatal(err)
	}
	b.ctx = b.as(b.LocalUser())
	news := make(chan struct{}, 1)
	for _, c := range []*chain{a, b} {
		t.Cleanup(bus.Subscribe(c.Bus, func(uuid.UUID, discovery.Changed) {
			select {
			case news <- struct{}{}:
			default:
			}
		}))
	}
	// reaches exchanges changes until a tool is in a state on a device.
	reaches := func(c *chain, id uuid.UUID, status string) discovery.ToolResult {
		t.Helper()
		late := time.After(patience)
		for {
			for _, x := range []*chain{a, b, a} {
				if _, err := x.Sync.Coordinate(x.ctx, cloudsync.CoordinateParams{}); err != nil {
					t.Fatal(err)
				}
			}
			got, err := c.Discovery.Get(c.ctx, discovery.ToolParams{ManifestID: id})
			if err == nil && got.Status == status {
				return got
			}
			select {
			case <-news:
			case <-time.After(100 * time.Millisecond):
			case <-late:
				t.Fatalf("the tool is %s, %v; want %s", got.Status, err, status)
			}
		}
	}
	questions := func(c *chain) []permission.Approval {
		t.Helper()
		list, err := c.Permission.ListApprovals(c.ctx, permission.ListApprovalsParams{})
		if err != nil {
			t.Fatal(err)
		}
		return list.Approvals
	}
	run := func(c *chain, id uuid.UUID, op string) error {
		_, err := c.Discovery.Run(c.ctx, discovery.RunParams{ManifestID: &id, Operation: op})
		return err
	}
	describe := func(summary string) string {
		return `{"openapi":"3.1.0","info":{"title":"Things","version":"1.0.0"},"servers":[{"url":"http://localhost:` + a.port + `"}],"components":{"securitySchemes":{"key":{"type":"apiKey","in":"header","name":"X-Key"}}},
			"paths":{"/things":{"get":{"operationId":"listThings","summary":"` + summary + `","security":[{"key":[]},{}]}},"/slow":{"get":{"operationId":"slow"}}}}`
	}
	spec, err := a.Discovery.InspectOpenAPI(a.ctx, discovery.InspectParams{Content: describe("Lists things.")})
	if err != nil {
		t.Fatal(err)
	}
	made, err := a.Discovery.ImportOpenAPI(a.ctx, discovery.ImportOpenAPIParams{SpecID: spec.SpecID, Operations: []string{"get /things", "get /slow"}})
	if err != nil {
		t.Fatal(err)
	}
	id := *made.ManifestID
	if _, err := a.Discovery.Approve(a.ctx, discovery.ApproveParams{ManifestID: id, DefinitionHash: made.DefinitionHash}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Discovery.SetAuth(a.ctx, discovery.AuthParams{ManifestID: id, Scheme: "key", Value: "only here"}); err != nil {
		t.Fatal(err)
	}

	got := reaches(b, id, discovery.StatusPending)
	for len(questions(b)) == 0 {
		<-news
	}
	if got.ApprovedAt != nil || got.InstallState != "none" || got.Credentials[0].State != "missing" {
		t.Errorf("the other device has %+v", got)
	}
	if err := run(b, id, "listThings"); !fault.Is(err, fault.Denied) || a.asked.Load() != 0 {
		t.Errorf("it ran without an approval of this device: %v", err)
	}
	b.answer("approve", "")
	reaches(b, id, discovery.StatusActive)
	if err := run(b, id, "listThings"); err != nil || a.asked.Load() != 1 {
		t.Errorf("an approved tool: %v, %d requests", err, a.asked.Load())
	}
	if r, err := a.Discovery.Get(a.ctx, discovery.ToolParams{ManifestID: id}); err != nil || r.Status != discovery.StatusActive {
		t.Errorf("on the first device: %+v, %v", r.Tool, err)
	}

	// Another definition is asked about on each device; going back to the approved one is not.
	if _, err := a.Discovery.Upgrade(a.ctx, discovery.UpgradeParams{ManifestID: id, Content: describe("Lists all things.")}); err != nil {
		t.Fatal(err)
	}
	reaches(b, id, discovery.StatusPending)
	if err := run(b, id, "listThings"); !fault.Is(err, fault.Denied) {
		t.Errorf("another definition ran: %v", err)
	}
	if _, err := a.Discovery.Upgrade(a.ctx, discovery.UpgradeParams{ManifestID: id, Content: describe("Lists things.")}); err != nil {
		t.Fatal(err)
	}
	reaches(b, id, discovery.StatusActive)
	if list := append(questions(a), questions(b)...); len(list) != 0 {
		t.Errorf("open questions: %+v", list)
	}
	if err := run(b, id, "listThings"); err != nil {
		t.Errorf("a definition that was approved before: %v", err)
	}

	// What denies the tool on one device ends it on the other, with its runs.
	ends := func(status string, deny func() error) {
		t.Helper()
		ended := make(chan error, 1)
		go func() { ended <- run(b, id, "slow") }()
		<-begun
		if err := deny(); err != nil {
			t.Fatal(err)
		}
		reaches(b, id, status)
		if err := <-ended; !fault.Is(err, fault.Denied) {
			t.Errorf("%s: the run ended with %v", status, err)
		}
		before := a.asked.Load()
		if err := run(b, id, "listThings"); !fault.Is(err, fault.Denied) || a.asked.Load() != before {
			t.Errorf("%s: %v", status, err)
		}
	}
	ends(discovery.StatusDisabled, func() error {
		_, err := a.Discovery.SetEnabled(a.ctx, discovery.EnableParams{ManifestID: id})
		return err
	})
	if _, err := a.Discovery.SetEnabled(a.ctx, discovery.EnableParams{ManifestID: id, Enabled: true}); err != nil {
		t.Fatal(err)
	}
	reaches(b, id, discovery.StatusActive)
	ends(discovery.StatusRevoked, func() error {
		_, err := a.Discovery.Revoke(a.ctx, discovery.RevokeParams{ManifestID: id})
		return err
	})
	var grants, approvals int
	if err := b.DB.Read(b.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT (SELECT count(*) FROM capability_grants WHERE subject_id = ? AND revoked_at IS NULL), (SELECT count(*) FROM tool_install)`, id.String()).Scan(&grants, &approvals)
	}); err != nil || grants+approvals != 0 {
		t.Errorf("a revoked tool has %d grants and %d approvals, %v", grants, approvals, err)
	}

	// The runs of each device are in the log of both.
	for _, x := range []*chain{a, b, a} {
		if _, err := x.Sync.Coordinate(x.ctx, cloudsync.CoordinateParams{}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := a.Discovery.Executions(a.ctx, discovery.ExecutionsParams{ManifestID: &id})
	if err != nil || len(list.Executions) != 8 {
		t.Errorf("the log has %+v, %v", list, err)
	}
}
