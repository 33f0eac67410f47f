# A mail server for tests: STARTTLS, or TLS from the start, and a sign-in. It writes "port N", and each
# message that it accepts as one line of JSON.
import asyncio, json, ssl, sys
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

cert, mode, mechanism = sys.argv[1:4]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(cert)


class Handler:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("nobody@"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        print(json.dumps({"from": envelope.mail_from, "to": envelope.rcpt_tos, "tls": session.ssl is not None or mode == "tls",
                          "user": session.auth_data, "data": envelope.content.decode("utf-8")}), flush=True)
        return "250 accepted"


def sign_in(server, session, envelope, kind, data):
    ok = isinstance(data, LoginPassword) and (data.login, data.password) == (b"ada@example.com", b"love lace")
    return AuthResult(success=ok, handled=False, auth_data=data.login.decode() if ok else None)


def protocol():
    return SMTP(Handler(), tls_context=context if mode == "starttls" else None, require_starttls=mode == "starttls", hostname="localhost",
                authenticator=sign_in, auth_require_tls=mode == "starttls", auth_exclude_mechanism=[x for x in ("LOGIN", "PLAIN") if x != mechanism])


async def main():
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0, ssl=context if mode == "tls" else None)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
