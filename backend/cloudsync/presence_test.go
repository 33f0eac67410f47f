package cloudsync

import (
	"testing"
	"time"

	"helix/backend/fault"
)

func TestPresenceAndStatisticsTellOfAllDevices(t *testing.T) {
	t.Parallel()
	a, b, dsn := connected(t)
	for range 3 {
		a.remember("counted")
	}
	a.now()
	b.now()
	for _, d := range []*device{a, b} {
		d.counts.told = time.Time{} // a minute has passed
		d.now()
	}
	p := must[PresenceResult](t)(b.Presence(b.ctx, struct{}{}))
	if len(p.Devices) != 2 || p.Devices[0].State != "online" || p.Devices[1].State != "idle" || p.Devices[0].Platform != "desktop" || p.Devices[0].Name != "first" {
		t.Errorf("%+v", p)
	}
	st := must[StatisticsResult](t)(a.Statistics(a.ctx, StatisticsParams{}))
	if len(st.Days) != 2 || st.Days[0].Pushed != 3 || st.Days[1].Pulled != 3 || st.Days[0].BytesUp == 0 || st.Days[1].BytesDown == 0 || st.Days[0].Day == "" {
		t.Errorf("%+v", st)
	}
	a.counts.told = time.Time{}
	a.now()
	if again := must[StatisticsResult](t)(a.Statistics(a.ctx, StatisticsParams{Days: 1})); again.Days[0].Pushed != 3 {
		t.Errorf("counted twice: %+v", again)
	}
	if _, err := admin(t, dsn).Exec(t.Context(), `set role helix_owner; update public.sync_presence set last_seen = now() - interval '200 seconds'`); err != nil {
		t.Fatal(err)
	}
	if p := must[PresenceResult](t)(a.Presence(a.ctx, struct{}{})); p.Devices[1].State != "offline" {
		t.Errorf("%+v", p)
	}
	if _, err := a.Statistics(a.ctx, StatisticsParams{Days: 400}); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
}
