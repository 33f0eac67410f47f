package gateway_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/gateway/gatewaytest"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

const contractToken = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"

// thing is one row of the only domain in the contract table.
type thing struct {
	ID   uuid.UUID `json:"id"`
	Name string    `json:"name"`
}

type things struct {
	rows map[uuid.UUID]map[uuid.UUID]thing
}

type idParams struct {
	ID uuid.UUID `json:"id"`
}

func (s *things) get(ctx context.Context, p idParams) (thing, error) {
	t, ok := s.rows[identity.UserID(ctx)][p.ID]
	if !ok {
		return thing{}, fault.NotFoundf("Not found.")
	}
	return t, nil
}

// openTarget serves a small table with every method of the gateway.
func openTarget(t *testing.T) *gatewaytest.Target {
	t.Helper()
	db := storagetest.Open(t)
	user := db.LocalUser()
	b := bus.New()
	a := gateway.NewAPI()
	svc := gateway.NewServices(b, nil)
	s := gateway.New(a, gateway.Options{DB: db, Bus: b, Addr: "127.0.0.1:0", RootToken: contractToken, Services: svc,
		User: func() gateway.User { return gateway.User{ID: user.ID, DisplayName: user.DisplayName} }})
	rows := &things{rows: map[uuid.UUID]map[uuid.UUID]thing{}}
	gateway.Handle(a, "connect", gateway.None, s.Connect)
	gateway.Handle(a, "rpc.discover", gateway.Read, s.Discover)
	gateway.Handle(a, "session.get", gateway.Read, s.SessionGet)
	gateway.Handle(a, "sessions.list", gateway.Admin, s.SessionsList)
	gateway.Handle(a, "sessions.close", gateway.Admin, s.SessionsClose)
	gateway.Handle(a, "sessions.ticket", gateway.Admin, s.SessionsTicket, gateway.Secret())
	gateway.Handle(a, "tokens.create", gateway.Admin, s.TokensCreate, gateway.Secret())
	gateway.Handle(a, "tokens.list", gateway.Admin, s.TokensList)
	gateway.Handle(a, "tokens.revoke", gateway.Admin, s.TokensRevoke)
	gateway.Handle(a, "tokens.rotate_root", gateway.Admin, s.TokensRotateRoot)
	gateway.Handle(a, "events.subscribe", gateway.Read, s.Subscribe)
	gateway.Handle(a, "events.unsubscribe", gateway.Read, s.Unsubscribe)
	gateway.Handle(a, "events.resume", gateway.Read, s.Resume)
	gateway.Handle(a, "blobs.url", gateway.Read, s.BlobsURL)
	gateway.Handle(a, "services.list", gateway.Read, svc.List)
	gateway.Handle(a, "services.start", gateway.Write, svc.Start)
	gateway.Handle(a, "services.stop", gateway.Write, svc.Stop)
	gateway.Handle(a, "system.status", gateway.Read, s.SystemStatus)
	gateway.Handle(a, "system.stop", gateway.Admin, s.SystemStop)
	gateway.Handle(a, "app.activate", gateway.Write, s.Activate)
	gateway.Handle(a, "things.get", gateway.Read, rows.get)
	gateway.Handle(a, "things.approve", gateway.Approve, rows.get, gateway.Costly())
	gateway.Alias(a, "start_memory_synthesis", "services.start", gateway.Preset("name", "memory-synthesis"))
	gateway.Forward[gateway.TokensChanged](a, "tokens.changed")
	ctx, cancel := context.WithCancel(context.Background())
	if err := s.Listen(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	owner := identity.Identity{User: user.ID, Scopes: gateway.Admin, Client: identity.ClientWindow}
	other := identity.Identity{User: identity.UserID(storagetest.OtherUser(t, db)), Scopes: gateway.Admin, Client: identity.ClientWindow}
	return &gatewaytest.Target{API: a, Server: s, RootToken: contractToken, Owner: owner, Other: other,
		Prepare: func(t *testing.T) ([]uuid.UUID, []string) {
			id := uuid.New()
			rows.rows[owner.User] = map[uuid.UUID]thing{id: {id, "zebra-of-a"}}
			tok, err := s.TokensCreate(gatewaytest.Context(t, owner), gateway.TokenParams{Name: "giraffe-of-a", Scopes: []string{"read"}})
			if err != nil {
				t.Fatal(err)
			}
			return []uuid.UUID{id, tok.ID}, []string{"zebra-of-a", "giraffe-of-a", tok.Token}
		},
		Count: func(t *testing.T, user uuid.UUID) map[string]int {
			n := map[string]int{"things": len(rows.rows[user])}
			var tokens int
			err := db.Read(t.Context(), func(tx *storage.Tx) error {
				return tx.QueryRow(`SELECT count(*) FROM gateway_tokens WHERE user_id = ? AND revoked_at IS NULL`, user).Scan(&tokens)
			})
			if err != nil {
				t.Fatal(err)
			}
			n["gateway_tokens"] = tokens
			return n
		}}
}

func TestContract(t *testing.T) {
	testkit.SkipRaced(t, "every method over every pipe, one call after the other")
	t.Parallel()
	gatewaytest.Run(t, openTarget)
}
