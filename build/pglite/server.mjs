// Serves PGlite, PostgreSQL as WebAssembly, with the extension vector on the port that is given as argument.
import { PGlite } from '@electric-sql/pglite';
import { vector } from '@electric-sql/pglite-pgvector';
import { PGLiteSocketServer } from '@electric-sql/pglite-socket';

const db = await PGlite.create({ extensions: { vector } });
await new PGLiteSocketServer({ db, host: '127.0.0.1', port: Number(process.argv[2]), maxConnections: 5 }).start();
console.log('ready');
