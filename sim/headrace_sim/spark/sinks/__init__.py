"""What runs sinks: attempts in processes of their own, what they do, and what they leave."""
