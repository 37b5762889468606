"""What commands run: pipelines on hosts, from an input to an output; mutants; and the endpoints of a served job."""
