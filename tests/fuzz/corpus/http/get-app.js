GET /app.js

