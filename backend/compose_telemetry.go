package backend

import (
	"cmp"
	"context"
	"net/url"

	"helix/backend/agent"
	"helix/backend/config"
	"helix/backend/identity"
	"helix/backend/otlp"
	"helix/backend/safehttp"
)

// otelEndpoint is the standard OpenTelemetry variable.
const otelEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"

// openTelemetry returns the telemetry that sends data about turns to the configured collector; nil:
// there is none, and nothing is sent.
func (b *Backend) openTelemetry(conf config.Config) *agent.Telemetry {
	endpoint := conf.TelemetryEndpoint
	if endpoint == "" {
		endpoint, _ = b.variable(otelEndpoint)
	}
	if endpoint == "" {
		return nil
	}
	// The person configured this address, which may be on this computer or elsewhere.
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		b.log.Warn("the address of the telemetry collector can't be read", "endpoint", endpoint)
		return nil
	}
	client := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }, DenyPorts: b.ownPort, MaxRequest: 16 << 20, MaxRedirects: -1})
	b.closing("connection to the telemetry collector", func() error { client.Close(); return nil })
	out := otlp.New(otlp.Options{Endpoint: endpoint, HTTP: client, Version: cmp.Or(Version, "dev"), Logger: b.log})
	out.Observe(agent.MetricMemory, "{chunk}", func(ctx context.Context) (float64, error) {
		s, err := b.Memory.Stats(identity.With(ctx, identity.Identity{User: b.LocalUser(), Scopes: identity.Read.Closed()}), struct{}{})
		return float64(s.Chunks), err
	})
	b.telemetry = out
	return &agent.Telemetry{Out: out, Content: conf.TelemetryContent}
}
