-- Takes the count of a queue's running jobs, and begins one where there is none. $1 namespace, $2
-- queue.
INSERT INTO jobmesh.queue_slots AS slots (namespace, queue, running) VALUES ($1, $2, 0)
ON CONFLICT (namespace, queue) DO UPDATE SET running = slots.running
