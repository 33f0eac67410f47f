package backend

import (
	"testing"

	"helix/backend/cloudsync"
	"helix/backend/cloudsync/hubtest"
	"helix/backend/config"
	"helix/backend/fault"
	"helix/backend/identity"
)

// The setting that sends embeddings to the hub can't be turned on while texts are encrypted there.
func TestEmbeddingsAreRefusedWhileTextsAreEncrypted(t *testing.T) {
	t.Parallel()
	b := start(t)
	ctx := identity.With(t.Context(), identity.Identity{User: b.DB.LocalUser().ID, Scopes: identity.Admin, Client: identity.ClientWindow})
	set := func(on bool) error {
		_, err := b.Config.Set(ctx, config.SetParams{Values: map[string]any{"sync.vectors": on}})
		return err
	}
	if err := set(true); err != nil || !b.Config.Current().SyncVectors {
		t.Fatalf("without a hub: %v", err)
	}
	if err := set(false); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Sync.Setup(ctx, cloudsync.SetupParams{AdminDSN: hubtest.Database(t)}); err != nil {
		t.Fatal(err)
	}
	if err := set(true); !fault.Is(err, fault.Denied) || b.Config.Current().SyncVectors {
		t.Errorf("with encryption: %v, %t", err, b.Config.Current().SyncVectors)
	}
	if st, err := b.Sync.Status(ctx, struct{}{}); err != nil || st.Hub.Embeddings != cloudsync.EmbeddingsOff {
		t.Errorf("%+v %v", st.Hub, err)
	}
}
